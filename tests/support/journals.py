"""Processes that share a journal of metadata in memory, each of whose requests a test can hold up or let fail."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.support.clock import FakeClock
from tests.support.memory_objects import MemoryObjects
from tfoperator.pipeline.objects import ObjectStore, Stored
from tfoperator.pipeline.store import JournaledDatabase, MetadataStore, RunRecord
from tfoperator.pipeline.store.shortening import REMOVED_SECONDS

RUN = RunRecord("r", "p", "running", "/root", "f", datetime(2026, 1, 1, tzinfo=UTC), steps={"a": ()}, term=1)
EVERY = 3
DAY = REMOVED_SECONDS


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
        """Of the objects that are there."""
        return list(self.objects.keys(prefix))

    def _opened(self, seen: ObjectStore, folder: Path) -> MetadataStore:
        database = JournaledDatabase(seen, folder, snapshot_every=EVERY, clock=self.clock)
        return self._stack.enter_context(MetadataStore(database))


def ids(store: MetadataStore) -> list[str]:
    """The runs in a store, the oldest first."""
    return [run.id for run in store.runs()][::-1]


def write(store: MetadataStore, *names: str) -> None:
    """Make a run of each name."""
    for name in names:
        store.put_run(msgspec.structs.replace(RUN, id=name))
