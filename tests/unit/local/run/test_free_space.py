from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfoperator.local.run.free_space import full_disk

HERE, THERE = Path("/here"), Path("/there")


def disk(free: int, *, for_users: int | None = None, files: int = 1000, free_files: int = 10) -> os.statvfs_result:
    """A disk with so many free blocks of 4 KiB."""
    for_users = free if for_users is None else for_users
    return os.statvfs_result((4096, 4096, 10**6, free, for_users, files, free_files, free_files, 0, 255))


@pytest.mark.parametrize(
    ("here", "root", "found"),
    [
        (disk(10**6), False, ""),
        (disk(3), False, "/here"),
        (disk(10**6, for_users=0), False, "/here"),
        (disk(10**6, for_users=0), True, ""),
        (disk(10**6, free_files=0), False, "/here"),
        (disk(10**6, files=0, free_files=0), False, ""),
    ],
)
def test_a_disk_is_full_without_blocks_or_files_for_this_user(
    monkeypatch: pytest.MonkeyPatch, here: os.statvfs_result, root: bool, found: str
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: here)
    assert full_disk([HERE], root=root) == found


def test_a_folder_that_can_not_be_asked_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(folder: Path) -> os.statvfs_result:
        if folder == HERE:
            raise FileNotFoundError(str(folder))
        return disk(0)

    monkeypatch.setattr(os, "statvfs", ask)
    assert full_disk([HERE, THERE]) == "/there"


def test_this_disk_has_room(tmp_path: Path) -> None:
    assert full_disk([tmp_path]) == ""
