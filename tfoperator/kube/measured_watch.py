"""One watch from acceptance to end, and what a reflector reports about lists and watches.

The questions that the metrics answer: is the cache fresh (age of the last event), is the server coping (relists,
failures, durations).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.kube.errors import ApiError, KubeError
from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.verbs import WatchEvent, WatchEventType, WatchStream

T = TypeVar("T", bound=HasMetadata)

_SHORT = 1.0
"""Seconds. A watch that ends sooner and without an event is a fault of the server, however cleanly it ended."""

_COUNTED = (WatchEventType.ADDED, WatchEventType.MODIFIED, WatchEventType.DELETED, WatchEventType.BOOKMARK)


class ReflectorMetrics:
    """Hooks that do nothing here: override what you need.

    They are called from many threads and on hot paths: they must be quick and must not raise. `informer` is the
    reflector's name, e.g. `pods`. Durations are seconds.
    """

    def list_finished(self, informer: str, seconds: float, items: int) -> None:
        """The whole state was read, by LIST or by a watch's initial events; the first time is the initial sync."""

    def list_failed(self, informer: str, reason: str) -> None:
        """A LIST failed; `reason` is the server's, or the name of the error's class (bounded in number)."""

    def watch_started(self, informer: str) -> None:
        """A server accepted a watch."""

    def watch_finished(self, informer: str, seconds: float, events: int) -> None:
        """A watch ended, for whatever reason, having delivered that many events (bookmarks included)."""

    def watch_failed(self, informer: str, reason: str) -> None:
        """A watch was refused or broke; `reason` as for `list_failed`."""

    def events_received(self, informer: str, event_type: str, count: int) -> None:
        """Watch events of a type (ADDED, MODIFIED, DELETED or BOOKMARK) arrived: the cache is as fresh as this moment.

        Called once for those of the type that came together.
        """


def reason_of(error: KubeError) -> str:
    """Return the server's reason, or the name of the error's class."""
    return (error.reason if isinstance(error, ApiError) else "") or type(error).__name__


class InitialState(msgspec.Struct, Generic[T], frozen=True):
    """What a watch began with, up to a version, and what came in one batch with the end of that."""

    objects: list[T]
    resource_version: str
    rest: Sequence[WatchEvent[T]]


class MeasuredWatch(Generic[T]):
    """An accepted watch whose events are counted. One thread takes `batches`; any may `close()` it."""

    def __init__(self, stream: WatchStream[T], *, name: str, clock: Clock, metrics: ReflectorMetrics) -> None:
        self._stream = stream
        self._name = name
        self._clock = clock
        self._metrics = metrics
        self._opened_at = clock.monotonic()
        self._count = 0
        self._finished = False
        self.batches = self._counted()
        """What `WatchStream.batches` gives, in one iterator for the whole life: several loops may go on with it."""
        metrics.watch_started(name)

    def _counted(self) -> Iterator[Sequence[WatchEvent[T]]]:
        for batch in self._stream.batches():
            self._count += len(batch)
            types = [event.type for event in batch]
            for kind in _COUNTED:
                if count := types.count(kind):
                    self._metrics.events_received(self._name, kind, count)
            yield batch

    def initial_state(self) -> InitialState[T] | None:
        """Read until the bookmark that ends the initial events; None if the watch ends before. Raises KubeError."""
        state: dict[str, T] = {}
        for batch in self.batches:
            for number, event in enumerate(batch, 1):
                if event.initial_events_end:
                    return InitialState([*state.values()], event.resource_version, batch[number:])
                if event.object is None:
                    continue
                if event.type is WatchEventType.DELETED:
                    state.pop(event.object.metadata.key, None)
                else:
                    state[event.object.metadata.key] = event.object
        return None

    @property
    def fruitless(self) -> bool:
        """Whether it has been open for less than a second and brought nothing."""
        return self._count == 0 and self.age < _SHORT

    @property
    def age(self) -> float:
        """Seconds since it was accepted."""
        return self._clock.monotonic() - self._opened_at

    def close(self) -> None:
        """End it and its socket, waking a reader. Idempotent, thread-safe, does not block."""
        self._stream.close()

    def finish(self) -> None:
        """Close it, for the reader, and report it, once."""
        self.close()
        if not self._finished:
            self._finished = True
            self._metrics.watch_finished(self._name, self.age, self._count)
