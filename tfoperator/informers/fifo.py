"""News on their way from the reflector to the cache, strictly in the order in which the server sent them.

Nothing is merged or reordered, and a whole new state is compared with the cache when its turn comes. So nothing can go
stale in the queue, and an object that vanishes between two lists is reported deleted once. What came together is queued
and processed together, which takes a lock, and wakes a thread, once for all of it. The queue decouples reading the
socket from what a change sets off.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.reflector import Listed, News

T = TypeVar("T", bound=HasMetadata)


class FifoClosed(Exception):
    """The queue was closed; nothing comes any more."""


class Fifo(Generic[T]):
    """An unbounded queue of news between one producer (a reflector) and one consumer. Thread-safe.

    `synced` turns true when the first whole state has been *processed*, not when it was queued: only then does the
    cache show it.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        # Guards everything below; the one consumer takes news without it, as long as there are some.
        self._condition = threading.Condition()
        self._news: deque[News[T]] = deque()
        self._closed = False
        self._poked = False
        self._synced = False

    def __len__(self) -> int:
        return len(self._news)

    @property
    def synced(self) -> bool:
        """Whether the first whole state has been processed."""
        return self._synced

    def push(self, news: News[T]) -> None:
        """Queue what came together; nothing happens once closed."""
        with self._condition:
            if self._closed:
                return
            self._news.append(news)
            if len(self._news) == 1:  # the consumer waits for the first, and takes the others after it
                self._condition.notify_all()

    def pop(self, process: Callable[[News[T]], None], deadline: float | None = None) -> bool:
        """Wait for news and process them, outside the lock.

        For one consumer. Returns False, with nothing processed, if `deadline` (on the clock's `monotonic()`) has passed
        or `poke()` was called. Raises FifoClosed, and whatever `process` raises.
        """
        news = self._take() or self._wait(deadline)
        if news is None:
            return False
        process(news)
        if isinstance(news, Listed):
            self._synced = True
        return True

    def poke(self) -> None:
        """Make a waiting `pop`, or else the next one, return False, so that it is called with another deadline."""
        with self._condition:
            self._poked = True
            self._condition.notify_all()

    def close(self) -> None:
        """Drop what is queued, refuse what comes, and end `pop`. Idempotent."""
        with self._condition:
            self._closed = True
            self._news.clear()
            self._condition.notify_all()

    def _take(self) -> News[T] | None:
        """Take what is next, if there is something and `poke` was not called. One atomic step without the lock."""
        try:
            return None if self._poked else self._news.popleft()
        except IndexError:
            return None

    def _wait(self, deadline: float | None) -> News[T] | None:
        with self._condition:
            while self._poked or not self._news:
                if self._closed:
                    raise FifoClosed
                if self._poked or not self._clock.wait_until(self._condition, deadline):
                    self._poked = False
                    return None
            return self._news.popleft()
