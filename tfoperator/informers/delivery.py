"""Handlers and hooks of an informer, and the queues between its threads.

One thread updates the cache, and each handler has a thread. The queues never merge or reorder items, so each handler
gets every change, in order. Because of the queues, processing a change does not delay reading from the socket, and a
slow handler delays neither the cache nor other handlers. The queues have no size limit, on purpose: with a limit the
slowest handler would delay all other handlers. Instead, the length of a handler's queue is a metric.
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
    """Receives every change of an informer's cache, after the cache has changed.

    The first calls are for the objects that already exist. A thread makes the calls of one registration one after the
    other, in the order of the changes. Each registration has its own thread. A slow handler does not delay other
    handlers. The calls pass the objects of the cache itself, so treat them as read-only. If a call raises an exception,
    the exception is logged and counted, and is not raised again. The next call follows.
    """

    def on_add(self, obj: T_contra) -> None:
        """Handle a new object."""
        ...

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """Handle a changed object.

        Also called for a resync, with the same `resource_version`, and then usually with the same object twice. Compare
        the UIDs: if an object was deleted and recreated while the watch was interrupted, the handler gets only one
        update for both changes.
        """
        ...

    def on_delete(self, obj: T_contra) -> None:
        """Handle a deleted object.

        `obj` is its last state; if the watch missed the deletion, `obj` is the last state in the cache. This method may
        also be called for an object for which no other call was made before.
        """
        ...


class Callbacks(Generic[T]):
    """A `ResourceEventHandler` that calls `changed` for each added or updated object, and `gone` for each deleted
    object.

    If an update has an object with another UID, it also counts as the deletion of the old object.
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
        """Call `changed` with the new object. If its UID is new, first call `gone` with the old object."""
        if old.metadata.uid != new.metadata.uid:
            self._gone(old)
        self._changed(new)

    def on_delete(self, obj: T) -> None:
        """Call `gone`."""
        self._gone(obj)


class InformerMetrics(ReflectorMetrics):
    """Hooks that do nothing in this class.

    Subclasses can use them to observe whether handlers are too slow, or fail.
    """

    def store_size(self, informer: str, read: Callable[[], int]) -> None:
        """Receive the function `read`, which returns the number of objects in the cache. Called once per informer.

        `read` may be called at any time and from any thread. A reference to `read` keeps the cache alive.
        """

    def handler_backlog(self, informer: str, handler: str, read: Callable[[], int]) -> None:
        """Receive the function `read`, which returns the number of pending calls of a handler. Called once per handler.

        `read` may be called from any thread.
        """

    def handler_failed(self, informer: str, handler: str) -> None:
        """Record that a handler raised an exception. The handler's call is not repeated: its next call follows."""


Notification = tuple[T | None, T | None]
"""A pending call, as the old and the new object. The old object is None for an add, and the new object is None for a
delete.
"""


class FifoClosed(Exception):
    """The queue was closed, so no more items will come."""


class Fifo(Generic[V]):
    """An unbounded queue with one consumer. Thread-safe."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        # Guards the fields below. Without the lock, the consumer may only take an item from `_items` if there is any.
        self._condition = threading.Condition()
        self._items: deque[V] = deque()
        self._closed = False
        self._poked = False

    def __len__(self) -> int:
        return len(self._items)

    def push(self, items: Sequence[V]) -> None:
        """Put these items into the queue. Do nothing if the queue is closed."""
        with self._condition:
            if self._closed:
                return
            # While the queue has items, the consumer takes them without waiting.
            waits = not self._items
            self._items.extend(items)
            if waits:
                self._condition.notify_all()

    def pop(self, deadline: float | None = None) -> V | None:
        """Wait for the next item, and remove it from the queue.

        Return None if `deadline` (a time of the clock's `monotonic()`) has passed, or if `poke()` was called. Raises
        FifoClosed if the queue is closed, even while `pop` waits.
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
        """Drop queued items, ignore later items, and make `pop` raise FifoClosed. Idempotent."""
        with self._condition:
            self._closed = True
            self._items.clear()
            self._condition.notify_all()


class Delivery(Generic[T]):
    """Calls one handler from a thread of its own. Any thread may call `push`.

    `next_resync` is the time at which the informer next resyncs the handler, on the clock's `monotonic()` (None:
    never). The informer reads and sets this time. Use it only while you hold the informer's lock.
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
        """Start to call the handler. The resync period starts now."""
        if self.resync_period > 0:
            self.next_resync = self._clock.monotonic() + self.resync_period
        self._thread.start()

    def push(self, notifications: Sequence[Notification[T]]) -> None:
        """Put these calls into the queue. Do nothing if the queue is closed."""
        if notifications:
            self._fifo.push(notifications)

    def close(self) -> None:
        """Make no more calls after the current call, and drop the calls in the queue. Return at once. Idempotent."""
        self._fifo.close()

    def join(self, timeout: float) -> bool:
        """Wait until the thread ends, for at most `timeout` real seconds.

        Return True if it ended, never ran, or is the calling thread.
        """
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
