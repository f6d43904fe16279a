"""Lists the objects of a selection, then watches them, until a deadline.

A follower reports each state of an object only once, even if its reflector reads the state again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.protocol.errors import (
    ApiError,
    ClientClosed,
    ConfigError,
    KubeError,
    is_expired,
)
from tfoperator.kube.protocol.options import EVERYTHING, Selection
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.retry import Outages
from tfoperator.kube.protocol.verbs import ApiClient, Decoder, ListWatch, WatchEvent, WatchEventType
from tfoperator.kube.views.objects import HasMetadata
from tfoperator.kube.watching.reflector import Listed, Reflector

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=HasMetadata)


class Change(msgspec.Struct, Generic[T], frozen=True):
    """A change: ADDED, MODIFIED or DELETED with the object.

    One BOOKMARK without an object marks the end of the first list.
    """

    type: WatchEventType
    object: T | None = None


class Follower(Generic[T]):
    """Yields the existing objects of a selection, then each change. One thread iterates over it, once.

    Iteration ends normally at `deadline` (a time of the clock's `monotonic()`; None: never), but not before the end of
    the first list. It also ends normally after any thread has called `close()`. Iteration raises KubeError if the first
    list fails. After the first list, it raises KubeError only if the server refuses a request permanently. After broken
    connections, server errors and expired versions, the follower retries with backoff. A caller that leaves the
    iteration early must close the iterator.
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
        self._deadline = deadline
        self._clock = clock or SystemClock()
        self._reflector = Reflector(
            ListWatch(client, resource, namespace, decode, selection),
            name=resource.plural,
            newest=True,
            on_failure=self._judge,
            clock=clock,
        )
        self._objects: dict[str, T] = {}  # by uid
        self._synced = False
        self._closed = False
        self._what = resource.plural
        self._outages = Outages(self._clock)

    def close(self) -> None:
        """End the iteration, and wake the thread that iterates. Idempotent, thread-safe, does not block."""
        self._closed = True
        self._reflector.stop()

    def __iter__(self) -> Generator[Change[T], None, None]:
        """Yield the existing objects, then the changes."""
        timer: threading.Timer | None = None
        try:
            for news in self._reflector:
                if isinstance(news, Listed):
                    yield from self._listed(news.objects)
                else:
                    yield from self._happened(news)
                # The deadline applies only after the first list: a wait of zero seconds reports the present state.
                if timer is None and self._deadline is not None:
                    timer = self._closing_timer(self._deadline)
        finally:
            self.close()
            if timer is not None:
                timer.cancel()
                timer.join()

    def _closing_timer(self, deadline: float) -> threading.Timer:
        # A watch timeout has a resolution of whole seconds.
        left = min(max(0.0, deadline - self._clock.monotonic()), threading.TIMEOUT_MAX)
        timer = threading.Timer(left, self.close)
        timer.name, timer.daemon = "follower-deadline", True
        timer.start()
        return timer

    def _listed(self, items: Sequence[T]) -> Iterator[Change[T]]:
        present = {item.metadata.uid for item in items}
        for gone in [item for uid, item in self._objects.items() if uid not in present]:
            yield self._gone(gone)
        for item in items:
            yield from self._added_or_modified(item)
        if not self._synced:
            self._synced = True
            yield Change(WatchEventType.BOOKMARK)

    def _happened(self, events: Sequence[WatchEvent[T]]) -> Iterator[Change[T]]:
        for event in events:
            if self._closed:
                return
            if event.type is WatchEventType.DELETED and event.object is not None:
                yield self._gone(event.object)
            elif event.object is not None:
                yield from self._added_or_modified(event.object)

    def _gone(self, item: T) -> Change[T]:
        self._objects.pop(item.metadata.uid, None)
        return Change(WatchEventType.DELETED, item)

    def _added_or_modified(self, item: T) -> Iterator[Change[T]]:
        before = self._objects.get(item.metadata.uid)
        if before is not None and before.metadata.resource_version == item.metadata.resource_version:
            return
        self._objects[item.metadata.uid] = item
        yield Change(WatchEventType.ADDED if before is None else WatchEventType.MODIFIED, item)

    def _judge(self, error: Exception, delay: float) -> None:
        """Return if the reflector may retry after `delay` seconds.

        Raise the error if a retry can't succeed, and also for any error before the end of the first list.
        """
        passes = self._outages.passes(error) or is_expired(error)
        refused = isinstance(error, ApiError) and not passes
        if refused or not self._synced or isinstance(error, ClientClosed) or not isinstance(error, KubeError):
            raise error
        # After a failure of a credential plugin, the user may have to act, for example log in again.
        level = logging.WARNING if isinstance(error, ConfigError) else logging.DEBUG
        logger.log(level, "the watch of %s is interrupted for %.1f s: %s", self._what, delay, error)
