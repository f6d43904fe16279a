"""Changes on their way from the reflector to the cache, strictly in the order in which the server sent them.

Nothing is merged or reordered, and a whole new state (`Replaced`) is one delta that is compared with the cache when its
turn comes. So nothing can go stale in the queue, and an object that vanishes between two lists is reported deleted
once. What came together is queued and processed together, which takes a lock, and wakes a thread, once for all of it.
The queue decouples reading the socket from what a change sets off.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Generic, TypeVar

import msgspec

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.objects import HasMetadata

T = TypeVar("T", bound=HasMetadata)


class DeltaType(Enum):
    """What happened. Whether an upsert adds or updates is for the cache to say when its turn comes."""

    UPSERTED = "upserted"
    DELETED = "deleted"
    REPLACED = "replaced"


class Delta(msgspec.Struct, Generic[T], frozen=True):
    """One change: `objects` holds the one object of an upsert or delete, or the whole new state of a replace."""

    type: DeltaType
    objects: Sequence[T]


class FifoClosed(Exception):
    """The queue was closed; nothing comes any more."""


class DeltaFifo(Generic[T]):
    """An unbounded queue of batches of deltas between one producer (a reflector) and one consumer. Thread-safe.

    `synced` turns true when the first whole state has been *processed*, not when it was queued: only then does the
    cache show it.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        # Guards everything below; the one consumer takes batches without it, as long as there are some.
        self._condition = threading.Condition()
        self._batches: deque[Sequence[Delta[T]]] = deque()
        self._closed = False
        self._poked = False
        self._synced = False

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def synced(self) -> bool:
        """Whether the first replace has been processed."""
        return self._synced

    def apply(self, deltas: Sequence[Delta[T]]) -> None:
        """These upserts and deletes happened, in this order. They are processed together."""
        if deltas:
            self._push(deltas)

    def replace(self, objects: Sequence[T]) -> None:
        """The server holds exactly these objects."""
        self._push([Delta(DeltaType.REPLACED, objects)])

    def pop(self, process: Callable[[Sequence[Delta[T]]], None], deadline: float | None = None) -> bool:
        """Wait for a batch of deltas (what came together, or a replace) and process it, outside the lock.

        For one consumer. Returns False, with nothing processed, if `deadline` (on the clock's `monotonic()`) has passed
        or `poke()` was called. Raises FifoClosed, and whatever `process` raises.
        """
        batch = self._take() or self._wait(deadline)
        if batch is None:
            return False
        process(batch)
        if batch[0].type is DeltaType.REPLACED:
            self._synced = True
        return True

    def poke(self) -> None:
        """Make a waiting `pop`, or else the next one, return False, so that it is called with another deadline."""
        with self._condition:
            self._poked = True
            self._condition.notify_all()

    def close(self) -> None:
        """Drop what is queued, refuse what comes, and end `pop`. Idempotent."""
        with self._condition:
            self._closed = True
            self._batches.clear()
            self._condition.notify_all()

    def _take(self) -> Sequence[Delta[T]] | None:
        """The next batch, if there is one and `poke` was not called. One atomic step without the lock."""
        try:
            return None if self._poked else self._batches.popleft()
        except IndexError:
            return None

    def _wait(self, deadline: float | None) -> Sequence[Delta[T]] | None:
        with self._condition:
            while self._poked or not self._batches:
                if self._closed:
                    raise FifoClosed
                if self._poked or not self._clock.wait_until(self._condition, deadline):
                    self._poked = False
                    return None
            return self._batches.popleft()

    def _push(self, batch: Sequence[Delta[T]]) -> None:
        with self._condition:
            if self._closed:
                return
            self._batches.append(batch)
            if len(self._batches) == 1:  # the consumer waits for the first, and takes the others after it
                self._condition.notify_all()
