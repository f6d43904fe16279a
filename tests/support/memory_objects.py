"""An object store in memory, whose time is a test's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from tests.support.clock import FakeClock
from tfoperator.pipeline.objects import ABSENT, ObjectConflict, ObjectStoreError, Stored

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class MemoryObjects:
    """See `ObjectStore`. `on_the_way` is called between the beginning of a write and its effect, and `on_the_way_back`
    between its effect and the answer.

    With `loses_answers`, writes take effect, and who wrote is not told.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards the two below
        self._objects: dict[str, tuple[bytes, str, float]] = {}
        self._writes = 0
        self.loses_answers = False
        self.on_the_way: Callable[[], object] = lambda: None
        self.on_the_way_back: Callable[[], object] = lambda: None

    def get(self, key: str) -> Stored | None:
        with self._lock:
            found = self._objects.get(key)
        if found is None:
            return None
        data, version, at = found
        return Stored(data, version, self._clock.monotonic() - at, _EPOCH + timedelta(seconds=at))

    def put(self, key: str, data: bytes, expected: str | None = None) -> str:
        self.on_the_way()
        with self._lock:
            there = self._objects[key][1] if key in self._objects else ABSENT
            if expected is not None and there != expected:
                raise ObjectConflict(key)
            self._writes += 1
            version = f"v{self._writes}"
            self._objects[key] = (data, version, self._clock.monotonic())
        self.on_the_way_back()
        if self.loses_answers:
            raise ObjectStoreError("the answer is lost")
        return version

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        with self._lock:
            found = sorted(key for key in self._objects if key.startswith(prefix) and key > after)
        yield from found

    def delete(self, key: str) -> None:
        with self._lock:
            self._objects.pop(key, None)
