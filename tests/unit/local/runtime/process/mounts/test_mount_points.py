import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tfoperator.local.runtime.process.cleanup.guardian_main import POINT_MODE, remove_point
from tfoperator.local.runtime.process.cleanup.records import kill_recorded
from tfoperator.local.runtime.process.mounts.mount_points import MountPoints


@pytest.fixture
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


@pytest.fixture
def points(records: Path) -> MountPoints:
    return MountPoints(records)


@pytest.mark.parametrize("folder", [True, False])
def test_a_mount_point_stays_until_its_last_pod_has_ended_with_the_folders_above_it(
    points: MountPoints, records: Path, tmp_path: Path, folder: bool
) -> None:
    at = tmp_path / "a" / "b" / "c"
    for pod in ("first", "second", "second"):
        points.make(pod, str(at), folder=folder)
    assert at.is_dir() == folder
    assert stat.S_IMODE(at.stat().st_mode) == POINT_MODE
    points.release("first")
    assert at.exists()
    points.release("second")
    assert list(tmp_path.iterdir()) == []
    assert list(records.iterdir()) == []


def test_a_pod_may_need_a_folder_above_the_mount_point_of_another_pod(points: MountPoints, tmp_path: Path) -> None:
    points.make("inner", str(tmp_path / "a" / "b"), folder=True)
    points.make("outer", str(tmp_path / "a"), folder=True)
    points.release("inner")
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
    points.release("outer")
    assert list(tmp_path.iterdir()) == []


def test_another_run_that_needs_it_keeps_it_and_removes_it_at_its_end(
    points: MountPoints, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    another = MountPoints(tmp_path_factory.mktemp("records-of-another-run"))
    at = tmp_path / "a"
    points.make("pod", str(at), folder=True)
    another.make("pod", str(at), folder=True)
    points.close()
    assert at.is_dir()
    another.close()
    assert not at.exists()


def test_a_folder_of_a_person_and_one_with_content_are_never_removed(points: MountPoints, tmp_path: Path) -> None:
    mine, used = tmp_path / "mine", tmp_path / "used"
    mine.mkdir()
    for path in (mine, used):
        points.make("pod", str(path), folder=True)
    (used / "x").touch()
    points.close()
    assert mine.is_dir()
    assert (used / "x").exists()


def test_a_link_in_the_place_of_a_mount_point_is_not_followed(points: MountPoints, tmp_path: Path) -> None:
    points.make("pod", str(tmp_path / "point"), folder=True)
    (tmp_path / "link").symlink_to(tmp_path / "point")
    remove_point(str(tmp_path / "link"))
    assert (tmp_path / "point").is_dir()
    with pytest.raises(OSError, match="link"):
        points.make("pod", str(tmp_path / "link"), folder=True)
    points.close()


def test_after_a_crash_the_next_run_removes_it_unless_another_one_needs_it(
    records: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    code = (
        "import sys, os, pathlib; from tfoperator.local.runtime.process.mounts.mount_points import MountPoints\n"
        "MountPoints(pathlib.Path(sys.argv[1])).make('pod', sys.argv[2], folder=True); os._exit(9)"
    )
    at = tmp_path / "a" / "b"
    assert subprocess.run([sys.executable, "-c", code, records, at], check=False, timeout=60).returncode == 9
    assert at.is_dir()
    living = MountPoints(tmp_path_factory.mktemp("records-of-a-living-run"))
    for path in (at.parent, at):  # as the plan asks for each mount point that it finds
        living.make("pod", str(path), folder=True)
    kill_recorded(records)
    assert at.is_dir()
    living.close()
    assert not at.parent.exists()
    assert subprocess.run([sys.executable, "-c", code, records, at], check=False, timeout=60).returncode == 9
    kill_recorded(records)
    assert not at.parent.exists()
