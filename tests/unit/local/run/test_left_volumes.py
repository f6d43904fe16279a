"""The volumes that a killed run leaves are deleted by the next run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.local.node.pods import container, manifest, view
from tests.unit.local.run.test_job_run import Recorder, job
from tfoperator.base.files import hold_lock
from tfoperator.local.node.expansion import ObjectData
from tfoperator.local.node.volumes import VOLUMES, VolumeManager
from tfoperator.local.run.job_run import JobRun
from tfoperator.local.run.kept import LOG
from tfoperator.local.run.left_volumes import remove_left_volumes

KINDS = (
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "scratch", "emptyDir": {}},
    {"name": "keys", "secret": {"secretName": "keys"}},
)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """The directory of the run that begins."""
    (tmp_path / "own").mkdir()
    with hold_lock(tmp_path / "own" / LOG) or pytest.fail("locked"):
        yield tmp_path / "own"


def leave_volumes(run_dir: Path, *, keep: bool = False) -> None:
    """Make the volumes of a pod, as they are while the pod runs."""
    run_dir.mkdir(exist_ok=True, mode=0o700)
    (run_dir / LOG).touch()
    mounts = [{"name": volume["name"], "mountPath": f"/v/{volume['name']}"} for volume in KINDS]
    pod = view(manifest("p", container(volumeMounts=mounts), volumes=list(KINDS)))
    manager = VolumeManager(run_dir / VOLUMES, keep=keep)
    made = manager.prepare(pod, lambda kind, name: ObjectData({"password": b"s3cret"}))
    (made["scratch"] / "big").touch()
    (made["data"] / "weights").touch()


def left_in(run_dir: Path) -> list[str]:
    """The names of the files in the volumes of a run."""
    return sorted(path.name for path in (run_dir / VOLUMES).rglob("*") if path.is_file() and path.name[0] != ".")


ALL = ["big", "password", "weights"]


def test_a_killed_run_keeps_its_claims_only(tmp_path: Path, own: Path) -> None:
    killed = tmp_path / "killed"
    leave_volumes(killed)
    leave_volumes(own)  # by an earlier run with the same --logs-dir
    (tmp_path / "latest").symlink_to("killed")
    assert left_in(killed) == left_in(own) == ALL
    remove_left_volumes(own)
    assert left_in(killed) == left_in(own) == ["weights"]
    assert [path.name for path in (killed / VOLUMES).iterdir()] == ["claims"]


def test_a_living_run_keeps_its_volumes_and_so_does_a_killed_run_with_keep(tmp_path: Path, own: Path) -> None:
    kept, alive = tmp_path / "kept", tmp_path / "alive"
    leave_volumes(kept, keep=True)
    leave_volumes(alive)
    with hold_lock(alive / LOG) or pytest.fail("locked"):
        remove_left_volumes(own)
        assert left_in(kept) == left_in(alive) == ALL


def test_a_folder_that_is_no_run_or_that_another_user_could_change_is_left_alone(tmp_path: Path, own: Path) -> None:
    control_plane, public, linked = (tmp_path / name for name in ("control-plane", "public", "linked"))
    for folder in (control_plane, public):
        leave_volumes(folder)
    (control_plane / LOG).unlink()
    public.chmod(0o777)
    linked.mkdir()
    (linked / LOG).touch()
    (linked / VOLUMES).symlink_to(control_plane / VOLUMES)
    remove_left_volumes(own)
    assert left_in(control_plane) == left_in(public) == ALL


def test_a_run_deletes_the_volumes_of_killed_runs_before_its_jobs_start(tmp_path: Path) -> None:
    leave_volumes(tmp_path / "killed")
    result = JobRun([job("true")], Recorder(), run_dir=tmp_path / "next").execute()
    assert result.exit_code == 0
    assert left_in(tmp_path / "killed") == ["weights"]
