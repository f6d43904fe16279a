"""Handlers and hooks of an informer, and the queues between its threads: one for the cache, and one for each handler.

Items are not merged or reordered, so an item can't become stale. The queues decouple reading the socket from processing
a change, and a slow handler from the cache and the other handlers. They are unbounded on purpose: with a bound the
slowest handler would delay all others. Instead, the length of a handler's queue is a metric.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from tfoperator.base.clock import Clock
from tfoperator.kube.views.objects import HasMetadata
from tfoperator.kube.watching.measured_watch import ReflectorMetrics

T = TypeVar("T", bound=HasMetadata)
T_contra = TypeVar("T_contra", contravariant=True)
V = TypeVar("V")

logger = logging.getLogger(__name__)


class ResourceEventHandler(Protocol[T_contra]):
    """Called for every change of the cache, after the cache has changed, and first for the existing objects.

    The calls of one registration come one at a time, from their own thread, in the order of the changes. A slow
    handler does not delay other handlers. The objects are the cache's objects: read-only. An exception in a call is
    logged, counted, and dropped; the next call follows.
    """

    def on_add(self, obj: T_contra) -> None:
        """Handle a new object."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Handle a changed object, or a resync (same `resource_version`, then usually the same object).

        Compare UIDs: if an object was deleted and recreated while the watch was interrupted, both arrive as one update.
        """
        ...

    def on_delete(self, obj: T_contra) -> None:
        """Handle a deleted object: `obj` is its last state, or the cache's last state if the watch missed the deletion.

        May also be called for an object without an earlier call.
        """
        ...


class Callbacks(Generic[T]):
    """A `ResourceEventHandler` that calls `changed` for each object added or updated, `gone` for each deleted.

    An update to an object of another UID counts as a deletion, too.
    """

    def __init__(
        self, *, changed: Callable[[T], object] = lambda _: None, gone: Callable[[T], object] = lambda _: None
    ) -> None:
        self._changed = changed
        self._gone = gone

    def on_add(self, obj: T) -> None:
        """Call `changed`."""
        self._changed(obj)

    def on_update(self, old: T, new: T) -> None:
        """Call `changed` with the new object; if its UID is new, call `gone` with the old object first."""
        if old.metadata.uid != new.metadata.uid:
            self._gone(old)
        self._changed(new)

    def on_delete(self, obj: T) -> None:
        """Call `gone`."""
        self._gone(obj)


class InformerMetrics(ReflectorMetrics):
    """Hooks that do nothing here; they also show whether the handlers keep up and whether a handler fails."""

    def store_size(self, informer: str, read: Callable[[], int]) -> None:
        """Receive `read`, once: it returns, at any time and from any thread, the number of objects in the cache.

        A reference to `read` keeps the cache alive.
        """

    def handler_backlog(self, informer: str, handler: str, read: Callable[[], int]) -> None:
        """Receive `read`, once per handler: it returns, from any thread, the number of pending calls."""

    def handler_failed(self, informer: str, handler: str) -> None:
        """Record that a handler raised; it misses that call, and continues with the next."""


Notification = tuple[T | None, T | None]
"""A pending call, as the old and the new object: the old is None for an add, the new is None for a delete."""


class FifoClosed(Exception):
    """The queue was closed; no more items come."""


class Fifo(Generic[V]):
    """An unbounded queue with one consumer. Thread-safe."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        # Guards everything below; the one consumer takes items without it, as long as there are some.
        self._condition = threading.Condition()
        self._items: deque[V] = deque()
        self._closed = False
        self._poked = False

    def __len__(self) -> int:
        return len(self._items)

    def push(self, items: Sequence[V]) -> None:
        """Queue these items; no-op once closed."""
        with self._condition:
            if self._closed:
                return
            waits = (
                not self._items
            )  # if the consumer waits at all: while there are items, it takes them without waiting
            self._items.extend(items)
            if waits:
                self._condition.notify_all()

    def pop(self, deadline: float | None = None) -> V | None:
        """Wait for the next item, and take it.

        None if `deadline` (on the clock's `monotonic()`) has passed or `poke()` was called. Raises FifoClosed.
        """
        if not self._poked:
            try:
                # Without the lock: in a burst there is no need to wait, and taking is one atomic step.
                return self._items.popleft()
            except IndexError:
                pass
        with self._condition:
            while self._poked or not self._items:
                if self._closed:
                    raise FifoClosed
                if self._poked or not self._clock.wait_until(self._condition, deadline):
                    self._poked = False
                    return None
            return self._items.popleft()

    def poke(self) -> None:
        """Make a waiting `pop`, or else the next `pop`, return None, so that its caller can set another deadline."""
        with self._condition:
            self._poked = True
            self._condition.notify_all()

    def close(self) -> None:
        """Drop queued items, refuse later items, and end `pop`. Idempotent."""
        with self._condition:
            self._closed = True
            self._items.clear()
            self._condition.notify_all()


class Delivery(Generic[T]):
    """Calls one handler, from its own thread; any thread may call `push`.

    `next_resync` (on the clock's `monotonic()`, None: never) belongs to the informer: only under the informer's lock.
    """

    def __init__(
        self,
        handler: ResourceEventHandler[T],
        *,
        informer: str,
        name: str,
        resync_period: float,
        clock: Clock,
        metrics: InformerMetrics,
    ) -> None:
        self.name = name
        self.resync_period = resync_period
        self.next_resync: float | None = None
        self._handler = handler
        self._informer = informer
        self._clock = clock
        self._metrics = metrics
        self._thread = threading.Thread(target=self._run, name=f"informer {informer}: {name}", daemon=True)
        self._fifo: Fifo[Notification[T]] = Fifo(clock=clock)
        metrics.handler_backlog(informer, name, self._fifo.__len__)  # keeps the queue, but not the handler

    def start(self) -> None:
        """Start calling the handler, and count the resync period from now."""
        if self.resync_period > 0:
            self.next_resync = self._clock.monotonic() + self.resync_period
        self._thread.start()

    def push(self, notifications: Sequence[Notification[T]]) -> None:
        """Queue these calls; no-op once closed."""
        if notifications:
            self._fifo.push(notifications)

    def close(self) -> None:
        """Make no further call after the present call, and drop the queued calls. Does not wait. Idempotent."""
        self._fifo.close()

    def join(self, timeout: float) -> bool:
        """Wait (real seconds) for the thread's end; return True if it ended, never ran, or is the calling thread."""
        if self._thread.ident is None or self._thread is threading.current_thread():
            return True
        self._thread.join(max(timeout, 0))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            try:
                notification = self._fifo.pop()
            except FifoClosed:
                return
            if notification is None:
                continue
            old, new = notification
            try:
                self._call(old, new)
            except Exception:
                kind = "add" if old is None else "delete" if new is None else "update"
                key = next(obj.metadata.key for obj in notification if obj is not None)
                logger.exception("%s: handler %s failed on %s of %s", self._informer, self.name, kind, key)
                self._metrics.handler_failed(self._informer, self.name)

    def _call(self, old: T | None, new: T | None) -> None:
        if old is not None and new is not None:
            self._handler.on_update(old, new)
        elif new is not None:
            self._handler.on_add(new)
        elif old is not None:
            self._handler.on_delete(old)
