from collections.abc import Callable
from pathlib import Path

import pytest

from tfoperator.local.runtime.process.cleanup.records import kill_recorded
from tfoperator.local.runtime.process.mounts.mount_links import LinkUser, MountLinks


@pytest.fixture
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("volume")


@pytest.fixture
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


@pytest.fixture
def links(records: Path) -> MountLinks:
    return MountLinks(records)


@pytest.fixture
def at(tmp_path: Path) -> Path:
    """Where a link is made."""
    return tmp_path / "mnt\n"


def user(pod: str) -> LinkUser:
    return LinkUser(pod, f"ns/{pod}", "v")


def test_a_link_stays_until_its_last_pod_is_over_and_is_made_again_if_a_program_has_removed_it(
    links: MountLinks, at: Path, volume: Path
) -> None:
    for pod in ("first", "second", "second"):
        assert links.make(user(pod), at, volume) == ""
    links.release("first")
    assert at.readlink() == volume
    links.release("second")
    assert not at.is_symlink()
    links.make(user("first"), at, volume)
    at.unlink()
    assert links.make(user("second"), at, volume) == ""
    links.release("first")
    assert at.readlink() == volume


def test_a_link_of_somebody_else_is_used_if_it_leads_there_and_left(
    links: MountLinks, at: Path, tmp_path: Path, volume: Path
) -> None:
    at.symlink_to(volume)
    assert links.make(user("pod"), at, volume) == ""
    links.release("pod")
    assert links.make(user("pod"), at, tmp_path) == "it exists already"
    assert links.make(user("pod"), tmp_path / "no" / "mnt", volume) == "No such file or directory"
    links.close()
    assert at.readlink() == volume


@pytest.mark.parametrize("end", [lambda links: links.release("pod"), MountLinks.close])
def test_a_link_within_a_volume_goes_before_the_link_to_that_volume(
    links: MountLinks, at: Path, records: Path, tmp_path: Path, volume: Path, end: Callable[[MountLinks], None]
) -> None:
    links.make(user("pod"), at, volume)
    links.make(user("pod"), at / "cache", tmp_path)
    assert (volume / "cache").is_symlink()
    end(links)
    assert list(volume.iterdir()) == []
    assert not at.is_symlink()
    assert list(records.iterdir()) == []


def test_links_that_a_crash_has_left_are_found_by_their_records(
    links: MountLinks, at: Path, records: Path, tmp_path: Path, volume: Path
) -> None:
    other = tmp_path / "other"
    for path in (at, at / "cache", other):
        assert links.make(user("pod"), path, volume) == ""
    other.unlink()
    other.symlink_to(tmp_path)  # somebody has put another link in its place
    assert kill_recorded(records) == []
    assert not at.is_symlink()
    assert list(volume.iterdir()) == []
    assert other.readlink() == tmp_path
    assert list(records.iterdir()) == []


def test_a_link_appears_where_it_cannot_be_recorded(at: Path, tmp_path: Path, volume: Path) -> None:
    links = MountLinks(tmp_path / "no-such-folder")
    assert links.make(user("pod"), at, volume) == ""
    assert at.readlink() == volume
    links.close()
    assert not at.is_symlink()
