import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tfoperator.logs.archive.layout import RECORD
from tfoperator.logs.archive.log_file import SavedLog, save_log
from tfoperator.logs.archive.opening import open_place
from tfoperator.logs.archive.place import UNFINISHED
from tfoperator.logs.archive.retention import Retention


def fill(folder: Path, size: int, *, age: int) -> Path:
    (folder / "tensorflow.log").write_bytes(b"x" * (size - 10))
    (folder / RECORD).write_bytes(b"{" * 10)
    os.utime(folder / RECORD, (1_000_000 - age, 1_000_000 - age))
    return folder


def old(root: Path, name: str, size: int, *, age: int) -> Path:
    (root / name).mkdir(parents=True)
    return fill(root / name, size, age=age)


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def add(retention: Retention, target: Path, size: int, *, age: int = 0) -> None:
    when = datetime.fromtimestamp(1_000_000 - age, UTC)
    retention.add(fill(retention.new_folder(target), size, age=age), target, when)


def test_the_oldest_go_when_there_is_too_much_and_empty_folders_with_them(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    oldest = old(root, "ns/old-1/pod.1", 400, age=3)
    old(root, "ns/job-2/pod.1", 400, age=2)
    retention = Retention(open_place(root), 1000)
    target = root / "ns/job-2/pod.2"
    add(retention, target, 300)
    assert (target / "tensorflow.log").stat().st_size == 290
    assert not oldest.parent.exists()
    assert (root / "ns/job-2/pod.1").exists()
    assert len(list(target.parent.iterdir())) == 2


def test_a_pod_that_was_archived_before_is_replaced_and_one_that_is_too_large_kept_alone(tmp_path: Path) -> None:
    retention = Retention(open_place(tmp_path), 1000)
    for _ in range(5):
        add(retention, tmp_path / "ns/job/a", 500, age=9)
    assert size_of(tmp_path) == 500
    add(retention, tmp_path / "ns/job/b", 5000)
    assert [path.name for path in (tmp_path / "ns/job").iterdir()] == ["b"]


def test_what_a_crash_left_half_done_is_removed_and_what_is_being_written_is_not(tmp_path: Path) -> None:
    half = tmp_path / "ns/job" / f"{UNFINISHED}x"
    half.mkdir(parents=True)
    retention = Retention(open_place(tmp_path), 1000)
    other = retention.new_folder(tmp_path / "ns/job/b")
    add(retention, tmp_path / "ns/job/a", 90)
    assert not half.exists()
    assert other.exists()
    assert (tmp_path / "ns/job/a").exists()


class Tenants:
    """An archive of 1000 bytes and the present time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = FakeClock()
        self.retention = Retention(open_place(root), 1000, clock=self.clock)

    def add(self, place: str, size: int, *, hours_ago: float = 0.0) -> None:
        target = self.root / place
        folder = fill(self.retention.new_folder(target), size, age=0)
        self.retention.add(folder, target, self.clock.now() - timedelta(hours=hours_ago))

    def kept(self, namespace: str) -> int:
        return size_of(self.root / namespace)

    def write(self, place: str, size: int) -> SavedLog:
        """Write a log of so many bytes into a folder that stays unfinished; at no time is there too much."""
        folder = self.retention.new_folder(self.root / place)

        def pieces() -> Iterator[bytes]:
            for _ in range(size // 10):
                yield b"x" * 10
                assert self.kept(".") <= 1000

        room = partial(self.retention.claim, folder)
        saved = save_log(pieces(), folder / "c.log", limit=10_000, in_time=lambda: True, room=room)
        assert self.kept(".") <= 1000
        return saved


@pytest.fixture
def tenants(tmp_path: Path) -> Tenants:
    return Tenants(tmp_path / "archive")


def test_who_prints_without_end_removes_logs_of_their_own_only(tenants: Tenants) -> None:
    tenants.add("quiet/job/a", 200, hours_ago=90)
    tenants.add("quiet/job/b", 200, hours_ago=80)
    for number in range(50):
        tenants.add(f"loud/job/{number}", 150)
        assert tenants.kept(".") <= 1000
    assert tenants.kept("quiet") == 400
    assert 300 <= tenants.kept("loud") <= 600
    assert (tenants.root / "loud/job/49").exists()


def test_who_has_less_gets_room_from_who_has_most(tenants: Tenants) -> None:
    for number in range(10):
        tenants.add(f"loud/job/{number}", 90)
    tenants.add("middle/job/a", 90)
    assert tenants.write("new/job/a", 300) == SavedLog(300, 0, True)
    assert (tenants.kept("new"), tenants.kept("middle")) == (300, 90)


def test_a_log_that_is_being_written_counts_and_keeps_its_end_where_room_is_short(tenants: Tenants) -> None:
    tenants.add("quiet/job/a", 400)
    first, second = tenants.write("loud/job/a", 5000), tenants.write("loud/job/b", 5000)
    assert tenants.kept("quiet") == 400
    assert 100 <= first.size <= 600
    assert first.size + first.dropped == 5000
    assert second.size + second.dropped <= 5000
    assert tenants.write("third/job/a", 300).size > 0


def test_logs_of_others_are_protected_for_a_week(tenants: Tenants) -> None:
    for number in range(10):
        tenants.add(f"gone-{number}/job/a", 100, hours_ago=7 * 24 - 1)
    assert tenants.write("new/job/a", 500).size <= 200
    assert sum(tenants.kept(f"gone-{number}") for number in range(10)) == 800
    tenants.clock.advance(2 * 3600)
    assert tenants.write("new/job/b", 500) == SavedLog(500, 0, True)


def test_room_that_was_not_used_is_given_back(tenants: Tenants) -> None:
    folder = tenants.retention.new_folder(tenants.root / "ns/job/a")
    assert tenants.retention.claim(folder, 1000)
    assert not tenants.retention.claim(folder, 1)
    tenants.retention.release(folder)
    assert tenants.retention.claim(folder, 1000)
