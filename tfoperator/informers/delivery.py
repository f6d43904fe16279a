"""Delivers changes to one handler: its own unbounded buffer, its own thread, its own count of what is left to do.

The buffer is unbounded on purpose: a bound would make one slow handler stall the cache and every other handler. Its
length is a metric instead.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Generic, TypeVar

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.informers.metrics import InformerMetrics
from tfoperator.informers.protocols import ResourceEventHandler
from tfoperator.kube.objects import HasMetadata

T = TypeVar("T", bound=HasMetadata)

logger = logging.getLogger(__name__)


class Notice(Enum):
    """Which call a notification becomes."""

    INITIAL = "initial add"
    ADDED = "add"
    UPDATED = "update"
    DELETED = "delete"
    LOST = "delete with final state unknown"


class Notification(msgspec.Struct, Generic[T], frozen=True):
    """One call to come. `old` is set for updates only."""

    notice: Notice
    obj: T
    old: T | None = None


class Delivery(Generic[T]):
    """Calls one handler, from a thread of its own; `push` may be called from any.

    `next_resync` (on the clock's `monotonic()`, None: never) belongs to the informer, under the informer's lock.
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
        # Guards everything below; the delivery's thread takes notifications without it, as long as there are some.
        self._condition = threading.Condition()
        self._buffer: deque[Notification[T]] = deque()
        self._initial_left = 0
        self._upstream_synced = False
        self._closed = False
        metrics.handler_backlog(informer, name, self._buffer.__len__)  # which keeps the buffer, but not the handler

    @property
    def synced(self) -> bool:
        """Whether the cache was complete and every object then in it has been through the handler."""
        return self._upstream_synced and self._initial_left == 0

    @property
    def backlog(self) -> int:
        """How many notifications wait, apart from the one that the handler is busy with."""
        return len(self._buffer)

    def start(self) -> None:
        """Start calling the handler, and count the resync period from now."""
        if self.resync_period > 0:
            self.next_resync = self._clock.monotonic() + self.resync_period
        self._thread.start()

    def push(self, notifications: Sequence[Notification[T]]) -> None:
        """Queue these calls; nothing happens once closed."""
        with self._condition:
            if self._closed:
                return
            waits = not self._buffer  # if ever: the thread takes one after the other as long as there are some
            self._buffer.extend(notifications)
            for notification in notifications:
                if notification.notice is Notice.INITIAL:
                    self._initial_left += 1
            if waits:
                self._condition.notify_all()

    def upstream_synced(self) -> None:
        """The cache is complete: all initial adds have been pushed."""
        with self._condition:
            self._upstream_synced = True
            self._condition.notify_all()

    def wait_for_sync(self, deadline: float | None) -> bool:
        """Wait until `synced`, the deadline on the clock, or the end of the delivery. Returns `synced`."""
        with self._condition:
            while not self.synced and not self._closed:
                if not self._clock.wait_until(self._condition, deadline):
                    break
            return self.synced

    def close(self) -> None:
        """No further call after the present one; what is queued is dropped. Does not wait. Idempotent."""
        with self._condition:
            self._closed = True
            self._buffer.clear()
            self._condition.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait (real seconds) for the thread to end; True if it has, or never ran, or is the calling thread."""
        if self._thread.ident is None or self._thread is threading.current_thread():
            return True
        self._thread.join(max(timeout, 0))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            try:
                # Without the lock: in a burst there is nothing to wait for, and taking is one atomic step.
                notification = self._buffer.popleft()
            except IndexError:
                if self._wait():
                    continue
                return
            try:
                self._call(notification)
            except Exception:
                logger.exception(
                    "%s: handler %s failed on %s of %s",
                    self._informer,
                    self.name,
                    notification.notice.value,
                    notification.obj.metadata.key,
                )
                self._metrics.handler_failed(self._informer, self.name)
            finally:
                # Also after a crash: one bad object must not keep the handler unsynced for ever.
                if notification.notice is Notice.INITIAL:
                    self._initial_done()

    def _wait(self) -> bool:
        """Wait for a notification; False if the delivery is closed."""
        with self._condition:
            while not self._buffer and not self._closed:
                self._condition.wait()
            return not self._closed

    def _call(self, notification: Notification[T]) -> None:
        notice, obj = notification.notice, notification.obj
        if notice is Notice.UPDATED:
            assert notification.old is not None
            self._handler.on_update(notification.old, obj)
        elif notice in (Notice.ADDED, Notice.INITIAL):
            self._handler.on_add(obj, initial=notice is Notice.INITIAL)
        else:
            self._handler.on_delete(obj, final_state_unknown=notice is Notice.LOST)

    def _initial_done(self) -> None:
        with self._condition:
            self._initial_left -= 1
            self._condition.notify_all()


class Registration(Generic[T]):
    """A handler's place in an informer (or a group of them). Thread-safe."""

    def __init__(self, deliveries: Sequence[Delivery[T]], *, clock: Clock) -> None:
        self.deliveries = tuple(deliveries)  # for the informers of this package
        self._clock = clock

    @property
    def synced(self) -> bool:
        """Whether the caches are complete and the handler has been through every object of that first state."""
        return all(delivery.synced for delivery in self.deliveries)

    @property
    def backlog(self) -> int:
        """How many notifications wait for the handler."""
        return sum(delivery.backlog for delivery in self.deliveries)

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds (None: without limit) until `synced`, or removed; returns `synced`."""
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        return all(delivery.wait_for_sync(deadline) for delivery in self.deliveries)
