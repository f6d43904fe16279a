"""Threads that inspect running pods.

The pool starts a thread only when there is work for the thread. A thread that waits for an answer doesn't prevent the
operator from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any


class WitnessPool:
    """A pool of threads. Thread-safe. `close()` ends the pool's threads."""

    def __init__(self, at_once: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._lock = threading.Lock()  # guards _closed, and prevents work from being submitted after `close`
        self._running: set[Future[None]] = set()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the pool accepts no more work."""
        return self._closed

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        """Queue the work for the next free thread, and return at once. After `close`, the call does nothing."""
        with self._lock:
            if not self._closed:
                future = self._pool.submit(work, *arguments)
                self._running.add(future)
                future.add_done_callback(self._running.discard)

    def close(self, timeout: float) -> None:
        """Start no more work, and wait up to `timeout` seconds of real time for the threads. Idempotent.

        A thread may still wait for the answer of a node that is gone. This thread ends when the caller closes the
        Kubernetes client that the thread uses.
        """
        with self._lock:
            self._closed = True
            running = tuple(self._running)
        self._pool.shutdown(wait=False, cancel_futures=True)
        # Work that has not begun is cancelled now; `wait` would take it for work that goes on.
        if not wait([future for future in running if not future.cancelled()], timeout).not_done:
            self._pool.shutdown(wait=True)
