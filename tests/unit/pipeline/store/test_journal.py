from __future__ import annotations

import itertools
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests.support.threads import InThread
from tfoperator.launcher import OwnershipLost
from tfoperator.pipeline.objects import FileObjects, ObjectStoreError
from tfoperator.pipeline.store import JournaledDatabase, MetadataStore, RunRecord, StepOutcome, StoreError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = RunRecord("r1", "p", "running", "/root", "f", NOW, steps={"a": ()}, term=1)

Opened = Callable[..., MetadataStore]


@pytest.fixture
def objects(tmp_path: Path) -> FileObjects:
    return FileObjects(tmp_path / "objects")


@pytest.fixture
def opened(objects: FileObjects, tmp_path: Path) -> Iterator[Opened]:
    """Another process's store: a copy of its own, in a folder of its own."""
    numbers = itertools.count()
    with ExitStack() as stack:

        def opened(**options: int) -> MetadataStore:
            folder = tmp_path / f"scratch-{next(numbers)}"
            folder.mkdir()
            return stack.enter_context(MetadataStore(JournaledDatabase(objects, folder, **options)))

        yield opened


def tables(tmp_path: Path, number: int) -> list[str]:
    with sqlite3.connect(tmp_path / f"scratch-{number}" / "metadata.db") as db:
        found = list(db.iterdump())
    db.close()
    return found


def test_what_one_writes_the_other_reads_and_their_copies_are_the_same(opened: Opened, tmp_path: Path) -> None:
    one, other = opened(), opened()
    one.put_run(RUN)
    begun = other.begin_execution(RUN, "a", "Kind", {}, {"o": ("Model", "/a")}, {"x": [1, None, "ü"]}, "key", NOW)
    one.publish(begun.id, StepOutcome("COMPLETE", "", "i", {}, {"o": (("/b", {"n": 1.5}, True),)}, NOW), RUN)
    assert other.executions("r1") == one.executions("r1")
    assert one.executions("r1")["a"].outputs["o"][0].properties == {"n": 1.5}
    other.runs()
    assert tables(tmp_path, 0) == tables(tmp_path, 1)


def test_transactions_of_several_processes_at_once_are_one_sequence(
    opened: Opened, objects: FileObjects, tmp_path: Path
) -> None:
    stores = [opened(snapshot_every=7) for _ in range(4)]

    def work(who: int) -> None:
        for turn in range(6):
            stores[who].put_run(msgspec.structs.replace(RUN, id=f"{who}-{turn}"))

    calls = [InThread(lambda who=who: work(who)) for who in range(4)]  # type: ignore[misc]
    for call in calls:
        call.result(60)
    late = opened()
    assert sorted(run.id for run in late.runs()) == sorted(f"{who}-{turn}" for who in range(4) for turn in range(6))
    assert len(list(objects.keys("metadata/journal/"))) == 24
    assert 1 <= len(list(objects.keys("metadata/snapshots/"))) <= 3
    for store in stores:
        store.runs()
    assert all(tables(tmp_path, number) == tables(tmp_path, 0) for number in range(5))


def test_who_begins_with_a_snapshot_reads_only_what_came_after_it(opened: Opened, objects: FileObjects) -> None:
    one = opened(snapshot_every=3)
    for turn in range(7):
        one.put_run(msgspec.structs.replace(RUN, id=f"r{turn}"))
    for key in list(objects.keys("metadata/journal/"))[:6]:
        objects.delete(key)
    assert len(opened().runs()) == 7


def test_a_write_that_may_have_come_to_pass_is_not_lost_and_not_doubled(
    opened: Opened, objects: FileObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is lost, for good: who wrote does not know; the journal does."""
    one, other = opened(), opened()
    put = objects.put

    def lost(key: str, data: bytes, expected: str | None = None) -> str:
        put(key, data, expected)
        raise ObjectStoreError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(objects, "put", lost)
        with pytest.raises(StoreError, match="no answer"):
            one.put_run(RUN)
    assert one.run("r1") == other.run("r1") == RUN
    one.put_run(RUN)
    assert [run.id for run in other.runs()] == [run.id for run in one.runs()] == ["r1"]
    assert tables(tmp_path, 0) == tables(tmp_path, 1)


def test_a_transaction_that_raises_leaves_nothing(opened: Opened, objects: FileObjects) -> None:
    one = opened()
    with pytest.raises(StoreError, match="execution 7"):
        one.publish(7, StepOutcome("COMPLETE", "", "", {}, {}, NOW))
    assert list(objects.keys("metadata/")) == []


def test_a_runner_that_has_lost_its_run_writes_nothing_more_about_it(opened: Opened) -> None:
    one, other = opened(), opened()
    one.put_run(RUN)
    begun = one.begin_execution(RUN, "a", "Kind", {}, {}, {}, "", NOW)
    later = msgspec.structs.replace(RUN, term=2)
    other.put_run(later)
    with pytest.raises(OwnershipLost, match="r1: another runner has taken it over"):
        one.put_run(msgspec.structs.replace(RUN, state="failed"))
    with pytest.raises(OwnershipLost):
        one.publish(begun.id, StepOutcome("FAILED", "", "", {}, {}, NOW), RUN)
    with pytest.raises(OwnershipLost):
        one.begin_execution(RUN, "a", "Kind", {}, {}, {}, "", NOW)
    assert other.run("r1") == later
    assert other.executions("r1")["a"].state == "RUNNING"


def test_what_can_not_be_read_is_said_and_harms_nothing(opened: Opened, objects: FileObjects, tmp_path: Path) -> None:
    one = opened()
    objects.put("metadata/journal/000000000001.json", b'{"id":"x","schema":99,"statements":[]}')
    with pytest.raises(StoreError, match="written by a newer tfoperator"):
        one.runs()
    for statement in (f"ATTACH DATABASE '{tmp_path}/other' AS other", "DROP TABLE Type", "PRAGMA user_version = 7"):
        entry = {"id": "x", "schema": 1, "statements": [[statement, [[]]]]}
        objects.put("metadata/journal/000000000001.json", msgspec.json.encode(entry))
        with pytest.raises(StoreError, match="does more than to write rows"):
            one.runs()
    objects.put("metadata/snapshots/000000000009", zlib.compress(b"0" * 100)[:-1])
    with pytest.raises(StoreError, match="too large, or cut off"):
        opened()
    objects.delete("metadata/snapshots/000000000009")
    objects.put("metadata/journal/000000000001.json", b"\xff")
    with pytest.raises(StoreError, match="can't be read"):
        one.runs()
