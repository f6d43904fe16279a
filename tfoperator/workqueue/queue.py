"""A FIFO queue without duplicates, and its workers.

At most one worker processes an item at a time. If an item is added while it is processed, it is processed again. The
removal of duplicates makes a level-triggered controller cheap. A thousand events about one job cost one sync, and
events that arrive during a sync cause exactly one more sync after it. An item is *dirty* from its add until a worker
takes it. It is *processing* from that time until `done`. An item may be dirty and processing at the same time.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.workqueue.metrics import NOT_SHOWN, QueueMetrics

T = TypeVar("T", bound=Hashable)

PROCESSING_ID: Final[ContextVar[str]] = ContextVar("processing_id", default="")
"""In a worker's thread, this is a new ID for each time that an item is processed. Log lines show it. In all other
threads it is empty.
"""


class ShutDown(Exception):
    """The queue is shut down and empty: the worker that called `get` can end."""


class Queue(Generic[T]):
    """A thread-safe queue of hashable items. It removes duplicates, and its shutdown waits for running work.

    In a loop, a worker calls `item = get()`, does the work, and calls `done(item)` (in a `finally`). Only a queue with
    a name reports metrics.
    """

    def __init__(self, *, name: str = "", clock: Clock | None = None, metrics: QueueMetrics | None = None) -> None:
        self.name = name
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards all fields below down to the metrics; held for O(1) work only
        self._available = threading.Condition(self._lock)  # an item was pushed, or shutdown began
        self._idle = threading.Condition(self._lock)  # the last item in processing is done
        self._fifo: deque[T] = deque()
        self._dirty: dict[T, float] = {}  # the time when each item was added
        self._processing: dict[T, float] = {}  # the time when each item was taken
        self._shutting_down = False
        shown = metrics if name else None
        counted = shown or NOT_SHOWN
        self._adds = counted.adds.labels(name, name)
        self._queue_duration = counted.waits.labels(name, name)
        self._work_duration = counted.works.labels(name, name)
        self._retries = counted.retries.labels(name, name)
        if shown is not None:
            shown.depth.labels(name, name).set_function(self.depth)
            shown.unfinished.labels(name, name).set_function(self.unfinished_work_seconds)
            shown.longest.labels(name, name).set_function(self.longest_running_processor_seconds)

    def add(self, item: T) -> None:
        """Mark an item for processing. Never blocks.

        The call does nothing if the item already waits (the equal item that was added first is delivered), or if the
        queue is shutting down. If the item is being processed now, it is delivered again after its `done`.
        """
        with self._lock:
            if self._shutting_down or item in self._dirty:
                return
            self._dirty[item] = self._clock.monotonic()
            if item not in self._processing:
                self._fifo.append(item)
                self._available.notify()
        self._adds.inc()

    def get(self) -> T:
        """Take the next item.

        Block until an item is available. Raises `ShutDown` when the queue is shut down *and* empty. The worker must
        call `done` for each item that it takes.
        """
        with self._lock:
            while not self._fifo:
                if self._shutting_down:
                    raise ShutDown(f"queue {self.name or '(unnamed)'} is shut down")
                self._clock.wait_until(self._available, None)
            item = self._fifo.popleft()
            now = self._clock.monotonic()
            added = self._dirty.pop(item)
            self._processing[item] = now
        self._queue_duration.observe(now - added)
        return item

    def done(self, item: T) -> None:
        """Mark an item as processed. If it was added meanwhile, it is queued again, even during a shutdown.

        If the item is not being processed, the call is ignored: queueing such an item could give it to two workers.
        """
        with self._lock:
            taken = self._processing.pop(item, None)
            if taken is None:
                return
            now = self._clock.monotonic()
            if item in self._dirty:
                self._fifo.append(item)
                self._available.notify()
            if not self._processing:
                self._idle.notify_all()
        self._work_duration.observe(now - taken)

    def __len__(self) -> int:
        """Return the number of items that `get` could take now."""
        with self._lock:
            return len(self._fifo)

    def is_busy(self) -> bool:
        """Return whether items wait for a worker or are being processed."""
        with self._lock:
            return bool(self._fifo or self._processing)

    def shut_down(self, timeout: float | None = None) -> bool:
        """Reject more adds, and let workers end after they have taken the queued items.

        Wait for the items that are being processed. The call waits at most `timeout` seconds. It does not wait for
        items that are still in the queue. Returns whether all items in processing are done. Idempotent.
        """
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        with self._lock:
            self._shutting_down = True
            self._available.notify_all()
            while self._processing:
                if not self._clock.wait_until(self._idle, deadline):
                    break
            return not self._processing

    def depth(self) -> int:
        """Return the number of items that wait.

        It includes items that were added again while they are being processed.
        """
        with self._lock:
            return len(self._dirty)

    def unfinished_work_seconds(self) -> float:
        """Return the sum of the seconds that the items in processing have taken so far. O(workers)."""
        with self._lock:
            now = self._clock.monotonic()
            return sum(now - taken for taken in self._processing.values())

    def longest_running_processor_seconds(self) -> float:
        """Return the seconds for which the longest-running item has been processed so far.

        Return 0 if no item is being processed. O(workers).
        """
        with self._lock:
            if not self._processing:
                return 0.0
            return self._clock.monotonic() - min(self._processing.values())


class Workers(Generic[T]):
    """`count` threads that process the items of a queue. Start and stop them once each."""

    def __init__(self, queue: Queue[T], process: Callable[[T], None], count: int, *, thread_name: str) -> None:
        """Initialize; `process` must not raise an exception, because an exception would end the thread.

        Threads are named `thread_name-0` etc.
        """
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
        """Take no more items, and wait up to `timeout` seconds of real time for the items in processing.

        Return False if some of these items are not done. The call shuts the queue down.
        """
        self._stopping.set()
        finished = self._queue.shut_down(timeout)
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
                    PROCESSING_ID.set(str(uuid.uuid4()))
                    self._process(item)
            finally:
                self._queue.done(item)
