"""One watch from acceptance to end: its events, how long it lived, and the errors that servers send inside it.

A watch's ERROR event and a refused request mean the same things, so they leave here as the same exceptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from tfoperator.base.clock import Clock
from tfoperator.informers.metrics import InformerMetrics
from tfoperator.kube.errors import Status, error_from_status
from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.verbs import WatchEvent, WatchEventType, WatchStream

T = TypeVar("T", bound=HasMetadata)

_SHORT = 1.0
"""Seconds. A watch that ends sooner and without an event is a fault of the server, however cleanly it ended."""


_COUNTED = (WatchEventType.ADDED, WatchEventType.MODIFIED, WatchEventType.DELETED, WatchEventType.BOOKMARK)


class Watch(Generic[T]):
    """An accepted watch: batches of events, some of them empty.

    Iterate in one thread, in several `for` loops if need be; `close()` from any. Iteration raises what `WatchStream`
    does, and the ApiError in an ERROR event, after what came before that.
    """

    def __init__(self, stream: WatchStream[T], *, name: str, clock: Clock, metrics: InformerMetrics) -> None:
        self._stream = stream
        self._batches: Iterator[Sequence[WatchEvent[T]]] | None = None
        self._error: Status | None = None  # of an ERROR event behind the batch that was returned last
        self._name = name
        self._clock = clock
        self._metrics = metrics
        self._opened_at = clock.monotonic()
        self._count = 0
        self._finished = False
        metrics.watch_started(name)

    def __iter__(self) -> Iterator[Sequence[WatchEvent[T]]]:
        return self

    def __next__(self) -> Sequence[WatchEvent[T]]:
        if self._error is not None:
            raise error_from_status(self._error, "watch")
        # One iterator for the whole life: a stream may be a generator, which can't be started twice.
        if self._batches is None:
            self._batches = iter(self._stream.batches())
        batch = next(self._batches)
        types = [event.type for event in batch]
        if WatchEventType.ERROR in types:
            at = types.index(WatchEventType.ERROR)
            self._error = batch[at].status or Status(message="ERROR event without a status")
            batch, types = batch[:at], types[:at]
        self._count += len(types)
        for kind in _COUNTED:
            if count := types.count(kind):
                self._metrics.events_received(self._name, kind, count)
        return batch

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
        """Close, for the reader: also accounts for the watch, once."""
        self.close()
        if not self._finished:
            self._finished = True
            self._metrics.watch_finished(self._name, self.age, self._count)
