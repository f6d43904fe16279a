"""The worker threads: each takes a key from the queue, has it processed, and takes the next, until the queue ends.

The queue hands a key to one worker at a time, which is what makes one sync per job at a time of many workers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tfoperator.workqueue import RateLimitingQueue, ShutDown

__all__ = ["Workers"]


class Workers:
    """`count` threads that process keys. Start and stop them once."""

    def __init__(self, queue: RateLimitingQueue[str], process: Callable[[str], None], count: int) -> None:
        """`process` must not raise: that would end the thread."""
        self._queue = queue
        self._process = process
        self._count = count
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the threads."""
        self._threads = [
            threading.Thread(target=self._work, name=f"tfjob-worker-{number}", daemon=True)
            for number in range(self._count)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no new key, wait up to `timeout` real seconds for those being processed; False if one still is.

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
                key = self._queue.get()
            except ShutDown:
                return
            try:
                if not self._stopping.is_set():
                    self._process(key)
            finally:
                self._queue.done(key)
