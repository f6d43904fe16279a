"""One watch from acceptance to end, and the measurements of a reflector's lists and watches.

The metrics answer two questions. Is the cache fresh (age of the last event)? Can the server cope (relists, failures,
durations)?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.kube.protocol.errors import ApiError, KubeError
from tfoperator.kube.protocol.verbs import WatchEvent, WatchEventType, WatchStream
from tfoperator.kube.views.objects import HasMetadata

T = TypeVar("T", bound=HasMetadata)

_FRUITLESS_SECONDS = 1.0
"""Seconds. A watch that ends sooner and without an event is a server fault, even if it ended cleanly."""

_COUNTED_TYPES = (WatchEventType.ADDED, WatchEventType.MODIFIED, WatchEventType.DELETED, WatchEventType.BOOKMARK)


class ReflectorMetrics:
    """Hooks that do nothing here: override those that you need.

    They are called from many threads and on hot paths: they must be quick and must not raise. `informer` is the
    reflector's name, e.g. `pods`. Durations are seconds.
    """

    def list_finished(self, informer: str, seconds: float, items: int) -> None:
        """Record a read of the whole state, by LIST or a watch's initial events; the first read is the initial sync."""

    def list_failed(self, informer: str, reason: str) -> None:
        """Record a failed LIST; `reason` is the server's, or the name of the error's class (bounded in number)."""

    def watch_started(self, informer: str) -> None:
        """Record that a server accepted a watch."""

    def watch_finished(self, informer: str, seconds: float, events: int) -> None:
        """Record the end of a watch, for any reason, and the number of events it delivered (bookmarks included)."""

    def watch_failed(self, informer: str, reason: str) -> None:
        """Record that a watch was refused or broke; `reason` as for `list_failed`."""

    def events_received(self, informer: str, event_type: str, count: int) -> None:
        """Record watch events of a type (ADDED, MODIFIED, DELETED or BOOKMARK): the cache is fresh as of this moment.

        Called once per type and batch.
        """


def reason_of(error: KubeError) -> str:
    """Return the server's reason, or the name of the error's class."""
    return (error.reason if isinstance(error, ApiError) else "") or type(error).__name__


class InitialState(msgspec.Struct, Generic[T], frozen=True):
    """The initial state of a watch, up to a version, and the events in the same batch after its end."""

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
        """The iterator of `WatchStream.batches`, the same for the whole life: several loops may continue it."""
        metrics.watch_started(name)

    def _counted(self) -> Iterator[Sequence[WatchEvent[T]]]:
        for batch in self._stream.batches():
            self._count += len(batch)
            types = [event.type for event in batch]
            for kind in _COUNTED_TYPES:
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
        """Whether it has been open for less than a second and delivered no event."""
        return self._count == 0 and self.age < _FRUITLESS_SECONDS

    @property
    def age(self) -> float:
        """Seconds since it was accepted."""
        return self._clock.monotonic() - self._opened_at

    def close(self) -> None:
        """End it and its socket, waking a reader. Idempotent, thread-safe, does not block."""
        self._stream.close()

    def finish(self) -> None:
        """Close it, on behalf of the reader, and report its end, once."""
        self.close()
        if not self._finished:
            self._finished = True
            self._metrics.watch_finished(self._name, self.age, self._count)
