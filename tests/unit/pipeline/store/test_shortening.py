"""The journal gets shorter, and nobody who was away meanwhile loses or misses anything."""

from __future__ import annotations

import errno
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy.engine.default import DefaultDialect

from tests.support.journals import DAY, EVERY, Seen, World, ids, never, write
from tfoperator.pipeline.objects import ObjectStoreError
from tfoperator.pipeline.store import StoreError
from tfoperator.pipeline.store.shortening import JOURNAL, SNAPSHOTS, TRUSTED_SECONDS, first_number, shorten


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack)


def test_what_a_snapshot_has_had_for_a_day_is_removed(world: World) -> None:
    store, _ = world.process()
    names = [f"r{number}" for number in range(60)]
    for number, name in enumerate(names):
        write(store, name)
        world.clock.advance(DAY / 10)
        assert len(world.keys(JOURNAL)) <= 10 + 2 * EVERY + 2 or number < 20, number
        assert len(world.keys(SNAPSHOTS)) <= 3
    assert world.keys(JOURNAL)[0] > f"{JOURNAL}{40:012d}"
    assert world.runs() == ids(store) == names


def test_a_process_that_was_away_while_it_was_shortened_begins_anew(world: World) -> None:
    away, other = world.process()[0], world.process()[0]
    write(other, *"abcd")
    world.clock.advance(2 * DAY)
    write(other, *"efgh")
    assert world.keys(JOURNAL)[0] > f"{JOURNAL}{1:012d}"
    assert ids(away) == list("abcdefgh")
    write(away, "i")
    assert world.runs() == ids(other) == list("abcdefghi")


@pytest.mark.parametrize("request_number", range(1, 5))
def test_who_can_not_begin_anew_does_so_with_the_next_call(world: World, request_number: int) -> None:
    (away, seen), (other, _) = world.process(), world.process()
    write(away, "a")
    write(other, *"bcd")
    world.clock.advance(2 * TRUSTED_SECONDS)
    requests = itertools.count(1)

    def unavailable(where: str) -> None:
        if where.startswith("before") and next(requests) == request_number:
            raise ObjectStoreError("503")

    seen.between = unavailable
    with pytest.raises(StoreError, match="503"):
        ids(away)
    assert ids(away) == list("abcd")
    write(away, "e")
    assert world.runs() == list("abcde")


def test_who_has_no_space_for_a_new_copy_makes_it_with_the_next_call(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = world.process()
    write(store, *"abcd")
    world.clock.advance(2 * TRUSTED_SECONDS)

    def full(path: Path, _: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        for _ in range(2):
            with pytest.raises(StoreError, match="No space left"):
                ids(store)
    assert ids(store) == list("abcd")


def test_a_write_that_was_held_up_until_its_number_was_free_again_does_not_count(world: World) -> None:
    (slow, seen), (other, _) = world.process(), world.process()

    def hold_up(where: str) -> None:
        if where == "before put":
            seen.between = never
            write(other, *"abcd")
            world.clock.advance(2 * DAY)
            write(other, *"efgh")

    seen.between = hold_up
    with pytest.raises(StoreError, match="nobody knows whether it counts; try again later") as caught:
        write(slow, "mine")
    assert caught.value.passing
    assert world.runs() == ids(slow) == ids(other) == list("abcdefgh")
    write(slow, "mine")
    assert world.runs() == ids(slow) == ids(other) == [*"abcdefgh", "mine"]


def test_who_can_not_remove_what_is_old_has_written_none_the_less(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, _ = world.process()
    write(store, *"abcd")
    world.clock.advance(2 * DAY)

    def refused(key: str) -> None:
        raise ObjectStoreError(f"access to {key} is denied")

    with monkeypatch.context() as patch:
        patch.setattr(world.objects, "delete", refused)
        write(store, *"efgh")
    assert "what is old is not removed: access to metadata/journal/000000000001.json is denied" in caplog.text
    assert (world.runs(), len(world.keys(JOURNAL))) == (list("abcdefgh"), 8)
    write(store, *"ijk")
    assert world.keys(JOURNAL)[0] == f"{JOURNAL}{4:012d}.json"


def test_who_is_shown_no_snapshots_does_not_take_the_store_for_empty(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, other = world.process()[0], world.process()[0]
    write(other, *"abcd")
    world.clock.advance(2 * DAY)
    write(other, *"efgh")
    before = world.keys("metadata/")

    def none(prefix: str, after: str = "") -> Iterator[str]:
        yield from ()

    with monkeypatch.context() as patch:
        patch.setattr(world.objects, "keys", none)
        calls: list[Callable[[], object]] = [world.process, lambda: ids(away), lambda: write(away, "i")]
        for call in calls:
            with pytest.raises(StoreError, match=r"begins with transaction 4.*no snapshot.*try again later") as caught:
                call()
            assert caught.value.passing
    assert world.keys("metadata/") == before
    write(away, "i")
    assert world.runs() == ids(away) == ids(other) == list("abcdefghi")


def test_who_is_held_up_at_the_end_while_it_is_shortened_begins_anew(world: World) -> None:
    (away, seen), (other, _) = world.process(), world.process()
    write(other, "a")
    world.clock.advance(2 * TRUSTED_SECONDS)
    answers = itertools.count()

    def hold_up(where: str) -> None:
        if where == "before get" and next(answers) == 3:  # the copy is new, and its end is found: where does it begin?
            seen.between = never
            write(other, *"bcd")
            world.clock.advance(2 * DAY)
            write(other, *"efgh")

    seen.between = hold_up
    assert ids(away) == list("abcdefgh")
    assert seen.between is never


def test_of_two_that_shorten_at_once_the_slower_takes_nothing_back(world: World) -> None:
    store, _ = world.process()
    write(store, *"abcdefg")
    slow = Seen(world.objects)

    def hold_up(where: str) -> None:
        if where == "before put":
            slow.between = never
            world.clock.advance(2 * DAY)
            write(store, *"hijklmnop")

    world.clock.advance(2 * DAY)
    slow.between = hold_up
    shorten(slow)
    assert slow.between is never
    entries = world.keys(JOURNAL)
    assert first_number(world.objects) == int(entries[0][len(JOURNAL) :][:12]) > 4
    assert world.runs() == ids(store) == list("abcdefghijklmnop")


def test_names_of_others_among_its_objects_are_left_alone(world: World) -> None:
    foreign = [
        f"{SNAPSHOTS}000000000003 (conflicted copy)",
        f"{SNAPSHOTS}9",
        f"{SNAPSHOTS}old/000000000009",
        f"{JOURNAL}000000000001 (conflicted copy).json",
        f"{JOURNAL}000000000002.json~",
    ]
    for key in foreign:
        world.objects.put(key, b"not ours")
    store, _ = world.process()
    write(store, *"abcd")
    world.clock.advance(2 * DAY)
    write(store, *"efgh")
    assert f"{JOURNAL}{1:012d}.json" not in world.keys(JOURNAL)
    assert set(foreign) < set(world.keys("metadata/"))
    assert world.runs() == ids(store) == list("abcdefgh")


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error"), MemoryError(), OSError(28, "full")])
def test_who_can_not_make_a_snapshot_has_written_none_the_less(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    store, _ = world.process()

    def fails(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", fails)
        write(store, *"abc")
    assert "the metadata are written, but no snapshot is" in caplog.text
    assert (world.keys(SNAPSHOTS), world.runs()) == ([], list("abc"))
    write(store, "d")
    assert world.keys(SNAPSHOTS) == [f"{SNAPSHOTS}{4:012d}"]


def test_who_can_not_keep_in_its_copy_what_it_has_written_reads_it_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = world.process()[0], world.process()[0]

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(DefaultDialect, "do_commit", full)
        write(store, "a")
        with pytest.raises(StoreError, match="database or disk is full"):
            ids(other)
    assert world.runs() == ids(store) == ids(other) == ["a"]
