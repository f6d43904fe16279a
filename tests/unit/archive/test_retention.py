from __future__ import annotations

import os
from pathlib import Path

from tfoperator.archive.layout import RECORD
from tfoperator.archive.retention import UNFINISHED, Retention


def fill(folder: Path, size: int, *, age: int) -> Path:
    (folder / "tensorflow.log").write_bytes(b"x" * (size - 10))
    (folder / RECORD).write_bytes(b"{" * 10)
    os.utime(folder / RECORD, (1_000_000 - age, 1_000_000 - age))
    return folder


def old(root: Path, name: str, size: int, *, age: int) -> Path:
    made = root / name
    made.mkdir(parents=True)
    return fill(made, size, age=age)


def add(retention: Retention, target: Path, size: int, *, age: int = 0) -> None:
    retention.admit(fill(retention.scratch(target), size, age=age), target)


def test_the_oldest_go_when_there_is_too_much_and_empty_folders_with_them(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    oldest = old(root, "ns/old-1/pod.1", 400, age=3)
    old(root, "ns/job-2/pod.1", 400, age=2)
    retention = Retention(root, 1000)
    target = root / "ns/job-2/pod.2"
    add(retention, target, 300)
    assert (target / "tensorflow.log").stat().st_size == 290
    assert not oldest.parent.exists()
    assert (root / "ns/job-2/pod.1").exists()
    assert len(list(target.parent.iterdir())) == 2


def test_a_pod_that_was_archived_before_is_replaced(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    target = root / "ns/job/pod"
    retention = Retention(root, 1000)
    for _ in range(5):
        add(retention, target, 500)
    assert sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) == 500


def test_one_that_is_larger_than_the_archive_is_kept_alone(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    retention = Retention(root, 100)
    add(retention, root / "ns/job/a", 90, age=9)
    add(retention, root / "ns/job/b", 500)
    assert [one.name for one in (root / "ns/job").iterdir()] == ["b"]


def test_what_a_crash_left_half_done_is_removed_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    half = tmp_path / "ns/job" / f"{UNFINISHED}x"
    half.mkdir(parents=True)
    retention = Retention(tmp_path, 1000)
    other = retention.scratch(tmp_path / "ns/job/b")
    add(retention, tmp_path / "ns/job/a", 90)
    assert not half.exists()
    assert other.exists()
    assert (tmp_path / "ns/job/a").exists()
