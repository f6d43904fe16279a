"""One watch, from the moment when the server accepts it until its end.

Also defines the measurements of a reflector's lists and watches. The metrics answer two questions. First: is the cache
fresh (age of the last event)? Second: is the server fast enough (relists, failures, durations)?
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
"""Seconds. If a watch ends sooner and has delivered no event, the reflector treats this as a failure, even if the watch
ended without an error.
"""

_COUNTED_TYPES = (WatchEventType.ADDED, WatchEventType.MODIFIED, WatchEventType.DELETED, WatchEventType.BOOKMARK)


class ReflectorMetrics:
    """Hooks that do nothing in this class. Override the hooks that you need.

    Many threads call the hooks, and often. So hooks must be quick and must not raise. `informer` is the reflector's
    name, for example `pods`. Durations are in seconds.
    """

    def list_finished(self, informer: str, seconds: float, items: int) -> None:
        """Record that the whole state was read, by LIST or from a watch's initial events.

        The first such read is the initial sync.
        """

    def list_failed(self, informer: str, reason: str) -> None:
        """Record a failed LIST. `reason` is the server's reason, or the name of the error's class (a limited set)."""

    def watch_started(self, informer: str) -> None:
        """Record that a server accepted a watch."""

    def watch_finished(self, informer: str, seconds: float, events: int) -> None:
        """Record the end of a watch for any reason, and the number of its events (bookmarks included)."""

    def watch_failed(self, informer: str, reason: str) -> None:
        """Record that the server refused a watch, or that the watch broke. `reason` is as in `list_failed`."""

    def events_received(self, informer: str, event_type: str, count: int) -> None:
        """Record watch events of a type (ADDED, MODIFIED, DELETED or BOOKMARK). At this moment the cache is fresh.

        The method is called once per type and batch.
        """


def reason_of(error: KubeError) -> str:
    """Return the `reason` of the server's Status, for example `Expired`.

    Without a reason, return the name of the error's class.
    """
    return (error.reason if isinstance(error, ApiError) else "") or type(error).__name__


class InitialState(msgspec.Struct, Generic[T], frozen=True):
    """The objects in the initial events of a watch, their version, and the events that followed in the same batch."""

    objects: list[T]
    resource_version: str
    rest: Sequence[WatchEvent[T]]


class MeasuredWatch(Generic[T]):
    """A watch that the server has accepted. Reports the watch's start, events and end to the metrics.

    One thread reads `batches`, and any thread may call `close()`.
    """

    def __init__(self, stream: WatchStream[T], *, name: str, clock: Clock, metrics: ReflectorMetrics) -> None:
        self._stream = stream
        self._name = name
        self._clock = clock
        self._metrics = metrics
        self._opened_at = clock.monotonic()
        self._count = 0
        self._finished = False
        self.batches = self._counted()
        """The iterator of `WatchStream.batches`. It is always the same iterator, so one loop can continue where another
        loop ended.
        """
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
        """Read until the bookmark that ends the initial events.

        Return None if the watch ends before that bookmark. Raises KubeError if the watch breaks.
        """
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
        """Whether the watch has been open for less than a second and has delivered no event."""
        return self._count == 0 and self.age < _FRUITLESS_SECONDS

    @property
    def age(self) -> float:
        """Seconds since the server accepted the watch."""
        return self._clock.monotonic() - self._opened_at

    def close(self) -> None:
        """End the watch and its socket, and wake the thread that reads it. Idempotent, thread-safe, does not block."""
        self._stream.close()

    def finish(self) -> None:
        """Close the watch, and report its end to the metrics once. The reading thread calls this method."""
        self.close()
        if not self._finished:
            self._finished = True
            self._metrics.watch_finished(self._name, self.age, self._count)
