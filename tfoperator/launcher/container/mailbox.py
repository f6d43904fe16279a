"""Messages from several threads for one that waits with a deadline, on an injected clock."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

from tfoperator.base.clock import Clock

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Thread-safe; unbounded, as senders must never wait for the outcome of a launch."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._arrived = threading.Condition()  # guards _items
        self._items: deque[T] = deque()

    def put(self, item: T) -> None:
        """Send."""
        with self._arrived:
            self._items.append(item)
            self._arrived.notify_all()

    def take(self, deadline: float | None = None) -> T | None:
        """The oldest message; None if none comes until `deadline` (on `monotonic()`; None: wait for ever)."""
        with self._arrived:
            while not self._items:
                if not self._clock.wait_until(self._arrived, deadline) and not self._items:
                    return None
            return self._items.popleft()
