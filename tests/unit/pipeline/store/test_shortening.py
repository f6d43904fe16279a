"""The journal gets shorter, and nobody who was away meanwhile loses or misses anything."""

from __future__ import annotations

import errno
import itertools
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from sqlalchemy.engine.default import DefaultDialect

from tests.support.clock import FakeClock
from tests.support.memory_objects import MemoryObjects
from tfoperator.pipeline.objects import ObjectStore, ObjectStoreError, Stored
from tfoperator.pipeline.store import JournaledDatabase, MetadataStore, RunRecord, StoreError
from tfoperator.pipeline.store.shortening import (
    JOURNAL,
    REMOVED_SECONDS,
    SNAPSHOTS,
    TRUSTED_SECONDS,
    first_number,
    shorten,
)

RUN = RunRecord("r", "p", "running", "/root", "f", datetime(2026, 1, 1, tzinfo=UTC), steps={"a": ()}, term=1)
EVERY = 3
DAY = REMOVED_SECONDS


class Killed(BaseException):
    """The process has ended in the middle."""


class Seen:
    """The objects as one process sees them: `between` is called before and after each of its requests, and told so."""

    def __init__(self, objects: MemoryObjects) -> None:
        self._objects = objects
        self.between: Callable[[str], None] = never

    def get(self, key: str) -> Stored | None:
        with self._a_request("get"):
            return self._objects.get(key)

    def put(self, key: str, data: bytes, expected: str | None = None) -> str:
        with self._a_request("put"):
            return self._objects.put(key, data, expected)

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        with self._a_request("keys"):
            found = list(self._objects.keys(prefix, after))
        yield from found

    def delete(self, key: str) -> None:
        with self._a_request("delete"):
            self._objects.delete(key)

    @contextmanager
    def _a_request(self, what: str) -> Iterator[None]:
        self.between(f"before {what}")
        yield
        self.between(f"after {what}")


def never(_: str) -> None:
    """Nothing happens between requests."""


class World:
    """Processes with one store, in a world whose time is a test's."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._numbers = itertools.count()
        self.clock = FakeClock()
        self.objects = MemoryObjects(self.clock)

    def process(self) -> tuple[MetadataStore, Seen]:
        """A new one, which has read everything."""
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        seen = Seen(self.objects)
        return self._opened(seen, folder), seen

    def runs(self) -> list[str]:
        """What a process finds that begins now, the oldest first."""
        store, _ = self.process()
        with store:
            return ids(store)

    def keys(self, prefix: str) -> list[str]:
        return list(self.objects.keys(prefix))

    def _opened(self, seen: ObjectStore, folder: Path) -> MetadataStore:
        database = JournaledDatabase(seen, folder, snapshot_every=EVERY, clock=self.clock)
        return self._stack.enter_context(MetadataStore(database))


def ids(store: MetadataStore) -> list[str]:
    return [run.id for run in store.runs()][::-1]


def write(store: MetadataStore, *names: str) -> None:
    for name in names:
        store.put_run(msgspec.structs.replace(RUN, id=name))


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


PAUSES = st.sampled_from([0.0, 2 * TRUSTED_SECONDS, 1.5 * DAY])
WHO = st.integers(0, 1)
WHERE = st.sampled_from([f"{when} {what}" for when in ("before", "after") for what in ("get", "put", "keys", "delete")])
MEANWHILE = st.sampled_from([0, 1, 2 * EVERY, 4 * EVERY])
THEN = st.sampled_from(["", "", "killed", "fails"])


class Processes(RuleBasedStateMachine):
    """Two processes, of which each may be held up at any request for any time, while the other writes, or be killed,
    and of which any request may fail.
    """

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        self.world = World(self.stack)
        self.processes = [self.world.process() for _ in range(2)]
        self.names = (f"r{number}" for number in itertools.count())
        self.written: set[str] = set()
        self.maybe: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            with self.stack:
                self.check(self.world.runs())

    @rule(who=WHO, where=WHERE, pause=PAUSES, meanwhile=MEANWHILE, then=THEN)
    def writes(self, who: int, where: str, pause: float, meanwhile: int, then: str) -> None:
        self.writes_once(who, self.held_up(who, where, pause, meanwhile, then))

    @rule(who=WHO, where=WHERE, pause=PAUSES, meanwhile=MEANWHILE, fails=st.booleans())
    def reads(self, who: int, where: str, pause: float, meanwhile: int, fails: bool) -> None:
        before = set(self.written)
        store, seen = self.processes[who]
        seen.between = self.held_up(who, where, pause, meanwhile, "fails" if fails else "")
        try:
            assert before <= set(ids(store))
        except StoreError:
            if not fails:
                raise
        finally:
            seen.between = never

    @rule(who=WHO)
    def begins_anew(self, who: int) -> None:
        self.processes[who][0].close()
        self.processes[who] = self.world.process()

    @rule(seconds=PAUSES)
    def time_passes(self, seconds: float) -> None:
        self.world.clock.advance(seconds)

    @rule()
    def all_find_the_same(self) -> None:
        found = self.world.runs()
        self.check(found)
        assert [ids(store) for store, _ in self.processes] == [found, found]

    def held_up(self, who: int, where: str, pause: float, meanwhile: int, then: str) -> Callable[[str], None]:
        """At the first such request of a call, the other process writes, and time passes in the middle of that.

        After that the call goes on, its process is killed, or the request fails.
        """
        moments = iter([where])

        def between(now: str) -> None:
            if now == where and next(moments, ""):
                for number in range(meanwhile):
                    if number == meanwhile // 2:
                        self.world.clock.advance(pause)
                    self.writes_once(1 - who, never)
                if then == "killed":
                    raise Killed
                if then == "fails":
                    raise ObjectStoreError("no answer")

        return between

    def writes_once(self, who: int, between: Callable[[str], None]) -> None:
        store, seen = self.processes[who]
        name = next(self.names)
        seen.between = between
        try:
            write(store, name)
            self.written.add(name)
        except StoreError:
            self.maybe.add(name)
        except Killed:
            self.maybe.add(name)
            self.begins_anew(who)
        finally:
            seen.between = never

    def check(self, found: list[str]) -> None:
        """What was acknowledged is there, once; of the rest only what was tried."""
        assert len(set(found)) == len(found)
        assert self.written <= set(found) <= self.written | self.maybe


TestProcesses = Processes.TestCase
TestProcesses.settings = settings(max_examples=50, stateful_step_count=12, deadline=None)
