from __future__ import annotations

from pathlib import Path

import pytest

from tfoperator.local.runtime.process.mount_links import MountLinks


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    volume = tmp_path / "volume"
    volume.mkdir()
    return volume


def test_a_link_stays_until_its_last_pod_is_over(tmp_path: Path, volume: Path) -> None:
    links, at = MountLinks(), tmp_path / "mnt"
    assert links.make("first", at, volume) == ""
    assert links.make("second", at, volume) == ""
    links.release("first")
    assert at.readlink() == volume
    links.release("second")
    assert not at.is_symlink()


def test_a_container_that_starts_again_counts_once(tmp_path: Path, volume: Path) -> None:
    links, at = MountLinks(), tmp_path / "mnt"
    assert links.make("pod", at, volume) == links.make("pod", at, volume) == ""
    links.release("pod")
    assert not at.is_symlink()


def test_a_link_that_a_program_has_removed_is_made_again(tmp_path: Path, volume: Path) -> None:
    links, at = MountLinks(), tmp_path / "mnt"
    links.make("first", at, volume)
    at.unlink()
    assert links.make("second", at, volume) == ""
    links.release("first")
    assert at.readlink() == volume


def test_a_link_of_somebody_else_is_used_and_left(tmp_path: Path, volume: Path) -> None:
    links, at = MountLinks(), tmp_path / "mnt"
    at.symlink_to(volume)
    assert links.make("pod", at, volume) == ""
    links.release("pod")
    links.close()
    assert at.readlink() == volume


def test_what_is_there_is_not_replaced(tmp_path: Path, volume: Path) -> None:
    links, at = MountLinks(), tmp_path / "mnt"
    at.symlink_to(tmp_path)
    assert links.make("pod", at, volume) == "it exists already"
    assert links.make("pod", tmp_path / "no" / "mnt", volume) == "No such file or directory"
    links.close()
    assert at.readlink() == tmp_path


@pytest.mark.parametrize("by_pod", [True, False])
def test_a_link_within_a_volume_goes_before_the_link_to_that_volume(tmp_path: Path, volume: Path, by_pod: bool) -> None:
    links, outer = MountLinks(), tmp_path / "mnt"
    links.make("pod", outer, volume)
    links.make("pod", outer / "cache", tmp_path)
    assert (volume / "cache").is_symlink()
    if by_pod:
        links.release("pod")
    else:
        links.close()
    assert list(volume.iterdir()) == []
    assert not outer.is_symlink()
