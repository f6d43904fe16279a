"""Delivers changes to one handler: its own unbounded buffer, its own thread.

The buffer is unbounded on purpose: a bound would make one slow handler stall the cache and every other handler. Its
length is a metric instead.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from tfoperator.base.clock import Clock
from tfoperator.informers.handlers import InformerMetrics, ResourceEventHandler
from tfoperator.kube.objects import HasMetadata

T = TypeVar("T", bound=HasMetadata)

logger = logging.getLogger(__name__)


Notification = tuple[T | None, T | None]
"""One call to come, as the old object and the new one: an add without an old one, a delete without a new one."""


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
        self._closed = False
        metrics.handler_backlog(informer, name, self._buffer.__len__)  # which keeps the buffer, but not the handler

    def start(self) -> None:
        """Start calling the handler, and count the resync period from now."""
        if self.resync_period > 0:
            self.next_resync = self._clock.monotonic() + self.resync_period
        self._thread.start()

    def push(self, notifications: Sequence[Notification[T]]) -> None:
        """Queue these calls; nothing happens once closed."""
        if not notifications:
            return
        with self._condition:
            if self._closed:
                return
            waits = not self._buffer  # if ever: the thread takes one after the other as long as there are some
            self._buffer.extend(notifications)
            if waits:
                self._condition.notify_all()

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
                self._call(*notification)
            except Exception:
                old, new = notification
                kind = "add" if old is None else "delete" if new is None else "update"
                key = next(obj.metadata.key for obj in notification if obj is not None)
                logger.exception("%s: handler %s failed on %s of %s", self._informer, self.name, kind, key)
                self._metrics.handler_failed(self._informer, self.name)

    def _wait(self) -> bool:
        """Wait for a notification; False if the delivery is closed."""
        with self._condition:
            while not self._buffer and not self._closed:
                self._condition.wait()
            return not self._closed

    def _call(self, old: T | None, new: T | None) -> None:
        if old is not None and new is not None:
            self._handler.on_update(old, new)
        elif new is not None:
            self._handler.on_add(new)
        elif old is not None:
            self._handler.on_delete(old)
