from pathlib import Path

import pytest

from tests.unit.logs.archive.samples import pod, record, running
from tfoperator.kube.views.objects import Pod
from tfoperator.logs.archive.layout import ArchivedPod
from tfoperator.sdk.logs.history import add_archived
from tfoperator.sdk.logs.pod_logs import LogOptions


@pytest.fixture
def first(tmp_path: Path) -> ArchivedPod:
    return kept(tmp_path, "first", previous=True)


@pytest.fixture
def second(tmp_path: Path) -> ArchivedPod:
    return kept(tmp_path, "second")


def kept(root: Path, name: str, *, index: int = 0, previous: bool = False) -> ArchivedPod:
    folder = root / name
    folder.mkdir()
    (folder / "tensorflow.log").write_text(f"{name}\n")
    if previous:
        (folder / "tensorflow.previous.log").write_text(f"before {name}\n")
    return record(index, uid=name, folder=str(folder), previous=previous)


def text(pods: list[Pod], texts: dict[str, str], archived: list[ArchivedPod], *, previous: bool = False) -> list[str]:
    logs = add_archived(pods, texts, archived, LogOptions(previous=previous))
    return [f"{log.replica}: {log.text}{' (archive)' if log.archived else ''}" for log in logs]


def test_a_pod_that_is_there_tells_its_own_log_and_is_not_mistaken_for_the_one_before(first: ArchivedPod) -> None:
    assert text([pod()], {"mnist-worker-0": "now"}, [first]) == ["worker-0: now"]
    assert text([pod()], {}, [first]) == ["worker-0: None"]


def test_a_pod_whose_node_can_not_tell_its_log_has_it_archived_once(first: ArchivedPod, second: ArchivedPod) -> None:
    assert text([pod(uid="first")], {}, [first]) == ["worker-0: first\n (archive)"]
    assert text([pod(uid="first")], {"mnist-worker-0": "now"}, [first]) == ["worker-0: now"]
    assert text([pod(uid="second")], {}, [second], previous=True) == ["worker-0: None"]


def test_the_last_runs_are_archived_before_a_pods_first_or_without_one(first: ArchivedPod, second: ArchivedPod) -> None:
    assert text([pod()], {}, [first, second], previous=True) == ["worker-0: second\n (archive)"]
    assert text([pod()], {"mnist-worker-0": "again"}, [first], previous=True) == ["worker-0: again"]
    assert text([], {}, [first, second]) == ["worker-0: second\n (archive)"]
    assert text([], {}, [first, second], previous=True) == ["worker-0: first\n (archive)"]
    assert text([], {}, [first], previous=True) == ["worker-0: before first\n (archive)"]
    assert text([], {}, [second], previous=True) == ["worker-0: None"]


def test_replicas_with_and_without_a_pod_come_in_their_order(tmp_path: Path) -> None:
    archived = [kept(tmp_path, "a", index=2), kept(tmp_path, "b", index=0)]
    pods = [pod(1, running())]
    assert [line[:8] for line in text(pods, {"mnist-worker-1": "x"}, archived)] == ["worker-0", "worker-1", "worker-2"]
