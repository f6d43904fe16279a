from pathlib import Path, PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.logs.archive.samples import JOB, JOB_UID, pod
from tfoperator.logs.archive.layout import path_component, pod_folder


def test_names_of_kubernetes_stay_as_they_are() -> None:
    folder = pod_folder(JOB, pod(1, uid="12345678-9abc").metadata)
    assert folder == PurePosixPath(f"vision/mnist-{JOB_UID}/mnist-worker-1.12345678")


@given(st.text(max_size=400))
def test_no_name_leads_out_of_its_folder_or_is_too_long(text: str) -> None:
    part = path_component(text)
    assert (Path("/root") / part).parent == Path("/root")
    assert part not in ("", ".", "..")
    assert not part.startswith(".")
    assert len(part.encode()) < 250


@given(st.text(max_size=250), st.text(max_size=250))
def test_two_names_have_two_folders(first: str, other: str) -> None:
    assert (path_component(first) == path_component(other)) == (first == other)
