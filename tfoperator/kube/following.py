"""List, then watch, until a deadline: the base of everything here that waits.

A watch alone is not enough: it ends after minutes, connections break, and old resource versions expire. A follower
continues after each of these until its deadline, and reports each state of an object once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterator
from typing import Generic, TypeVar

import msgspec

from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.kube.errors import (
    ClientClosed,
    GoneError,
    ServerError,
    Status,
    TooManyRequestsError,
    TransportError,
    error_from_status,
)
from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.options import EVERYTHING, Selection, WatchOptions, select
from tfoperator.kube.paging import list_pages
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient, Decoder, WatchEvent, WatchEventType, WatchStream

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=HasMetadata)

_WATCH_SECONDS = 300
_BACKOFF = (0.5, 8.0)  # seconds before the first repetition, and at most
_SOUND = 1.0  # seconds that a watch without events has to last not to count as a failure
_HELD = 10.0  # seconds after which no outage goes on, whatever ends the watch: load balancers cut those without events


class Change(msgspec.Struct, Generic[T], frozen=True):
    """ADDED, MODIFIED or DELETED with the object; BOOKMARK, without one, after the first list."""

    type: WatchEventType
    object: T | None = None


class Follower(Generic[T]):
    """Iterate over it in one thread, once; `close()` ends it from any.

    Iteration ends normally at `deadline` (on the clock's `monotonic()`; None: never) or when closed. It raises
    KubeError if the first list fails, and later only if the server refuses for good: broken connections, server errors
    and expired versions are retried, with backoff. Who leaves the iteration early closes the iterator.
    """

    def __init__(
        self,
        client: ApiClient,
        resource: Resource,
        namespace: str,
        decode: Decoder[T],
        selection: Selection = EVERYTHING,
        *,
        deadline: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._decode = decode
        self._selection = selection
        self._deadline = deadline
        self._clock = clock or SystemClock()
        self._stop = StopSignal()
        self._lock = threading.Lock()  # guards _stream
        self._stream: WatchStream[T] | None = None
        self._known: dict[str, T] = {}  # by uid
        self._version = ""  # "": list anew
        self._synced = False
        self._delay = _BACKOFF[0]

    def close(self) -> None:
        """End the iteration, waking it. Idempotent, thread-safe, does not block."""
        self._stop.set()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()

    def __iter__(self) -> Generator[Change[T], None, None]:
        """Yield what is there, then what changes."""
        timer: threading.Timer | None = None
        if self._deadline is not None:
            # The server ends a watch at whole seconds at best.
            left = min(max(0.0, self._deadline - self._clock.monotonic()), threading.TIMEOUT_MAX)
            timer = threading.Timer(left, self.close)
            timer.name, timer.daemon = "follower-deadline", True
            timer.start()
        try:
            yield from self._changes()
        finally:
            self.close()
            if timer is not None:
                timer.cancel()
                timer.join()

    def _changes(self) -> Iterator[Change[T]]:
        # The first list is made even if there is no time at all: a wait of zero seconds reports the present state.
        while not self._synced or not self._stop.is_set():
            try:
                if self._version:
                    yield from self._watch()
                else:
                    yield from self._list()
                continue
            except ClientClosed:
                raise
            except GoneError:
                self._version = ""
            except (TransportError, ServerError, TooManyRequestsError) as error:
                if not self._synced:
                    raise
                logger.debug("following %s is interrupted: %s", self._resource.plural, error)
            self._back_off()

    def _list(self) -> Iterator[Change[T]]:
        items: list[T] = []
        version = ""
        for page in list_pages(self._client, self._resource, self._namespace, self._decode, self._selection):
            items += page.items
            version = page.resource_version
        self._version = version
        present = {item.metadata.uid for item in items}
        for gone in [item for uid, item in self._known.items() if uid not in present]:
            del self._known[gone.metadata.uid]
            yield Change(WatchEventType.DELETED, gone)
        for item in items:
            yield from self._seen(item)
        if not self._synced:
            self._synced = True
            yield Change(WatchEventType.BOOKMARK)

    def _watch(self) -> Iterator[Change[T]]:
        began = self._clock.monotonic()
        options = WatchOptions(resource_version=self._version, timeout_seconds=_WATCH_SECONDS)
        stream = self._client.watch(self._resource, self._namespace, self._decode, select(options, self._selection))
        with self._lock:
            self._stream = stream
        if self._stop.is_set():  # closed while the watch was being opened
            stream.close()
        heard = False
        try:
            for event in stream:
                heard = True
                self._delay = _BACKOFF[0]
                yield from self._take(event)
                if self._stop.is_set():
                    return
        finally:
            stream.close()
            if self._clock.monotonic() - began >= _HELD:
                self._delay = _BACKOFF[0]
        if not heard and self._clock.monotonic() - began < _SOUND:
            self._back_off()

    def _take(self, event: WatchEvent[T]) -> Iterator[Change[T]]:
        if event.type is WatchEventType.ERROR:
            raise error_from_status(event.status or Status(), f"watch {self._resource.plural}")
        if event.object is None:
            self._version = event.resource_version
            return
        self._version = event.object.metadata.resource_version
        if event.type is WatchEventType.DELETED:
            self._known.pop(event.object.metadata.uid, None)
            yield Change(WatchEventType.DELETED, event.object)
        else:
            yield from self._seen(event.object)

    def _seen(self, item: T) -> Iterator[Change[T]]:
        before = self._known.get(item.metadata.uid)
        if before is not None and before.metadata.resource_version == item.metadata.resource_version:
            return
        self._known[item.metadata.uid] = item
        yield Change(WatchEventType.ADDED if before is None else WatchEventType.MODIFIED, item)

    def _back_off(self) -> None:
        self._stop.wait(self._clock, self._delay)
        self._delay = min(self._delay * 2, _BACKOFF[1])
