"""The worker threads: each takes an item from the queue, has it processed, and takes the next, until the queue ends.

The queue hands an item to one worker at a time, so that no item is processed twice at once, however many workers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tfoperator.workqueue.queue import Queue, ShutDown

T = TypeVar("T", bound=Hashable)


class Workers(Generic[T]):
    """`count` threads that process items. Start and stop them once."""

    def __init__(self, queue: Queue[T], process: Callable[[T], None], count: int, *, thread_name: str) -> None:
        """`process` must not raise: that would end the thread. The threads are called `thread_name-0` and so on."""
        self._queue = queue
        self._process = process
        self._names = [f"{thread_name}-{number}" for number in range(count)]
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the threads."""
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for name in self._names]
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no new item, wait up to `timeout` real seconds for those being processed; False if one still is.

        Shuts the queue down.
        """
        self._stopping.set()
        finished = self._queue.shut_down_with_drain(timeout)
        if finished:
            for thread in self._threads:
                thread.join()
        return finished

    def _work(self) -> None:
        while True:
            try:
                item = self._queue.get()
            except ShutDown:
                return
            try:
                if not self._stopping.is_set():
                    self._process(item)
            finally:
                self._queue.done(item)
