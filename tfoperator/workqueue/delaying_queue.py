"""Queues that also accept items for a later time, for example for a retry.

A controller takes its work from a `RateLimitingQueue`. Failed items come back with growing delays. A success resets the
delay.

Each queue has one thread, which sleeps until the earliest deadline. The thread needs no periodic wake-up. A deadline on
a monotonic clock stays right however long the sleep lasts, and every change of the earliest deadline wakes the thread.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Hashable
from itertools import count
from typing import TypeVar

from tfoperator.base.clock import Clock
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.workqueue.metrics import QueueMetrics
from tfoperator.workqueue.queue import Queue

T = TypeVar("T", bound=Hashable)

_MAX_EXPONENT = 1000  # 2.0**1000 is a finite float; powers above 1023 would raise OverflowError
_MIN_COMPACTION = 64  # minimum number of outdated heap entries for rebuilding the heap


class DelayingQueue(Queue[T]):
    """A `Queue` with a method `add_after`.

    The queue's thread starts when the first item is delayed, and ends with the shutdown. A plain `add` does not cancel
    a delayed add: the item is then delivered twice, now and at the later time.
    """

    def __init__(self, *, name: str = "", clock: Clock | None = None, metrics: QueueMetrics | None = None) -> None:
        super().__init__(name=name, clock=clock, metrics=metrics)
        self._delay_lock = threading.Lock()  # guards the fields below; never held together with Queue's lock
        self._changed = threading.Condition(self._delay_lock)  # an earlier deadline was set, or shutdown began
        self._sequence = count()
        # If an item is added again with an earlier deadline, its old heap entry stays; an entry counts only
        # if its sequence number is the number in _due.
        self._heap: list[tuple[float, int, T]] = []
        self._due: dict[T, tuple[float, int]] = {}
        self._stopped = False
        self._thread: threading.Thread | None = None

    def add_after(self, item: T, seconds: float, *, is_retry: bool = True) -> None:
        """Add an item after `seconds` have passed. If `seconds` is not positive, add it at once. Never blocks.

        If the item is already delayed, the earlier of the two times counts. After the shutdown, the call is ignored.
        The add counts as a retry, like every delayed add in client-go. A caller that only batches items passes False
        for `is_retry`, and then the add does not count as a retry.
        """
        deadline = self._clock.monotonic() + seconds
        with self._delay_lock:
            if self._stopped:
                return
            if seconds > 0:
                scheduled = self._due.get(item)
                if scheduled is None or scheduled[0] > deadline:
                    self._schedule(item, deadline)
        if is_retry:
            self._retries.inc()
        if seconds <= 0:
            self.add(item)

    @property
    def delayed(self) -> int:
        """The number of delayed items."""
        with self._delay_lock:
            return len(self._due)

    def shut_down(self, timeout: float | None = None) -> bool:
        """Call `Queue.shut_down`. Delayed items are dropped, and the call waits for the end of the thread."""
        self._stop_delaying()
        return super().shut_down(timeout)

    def _schedule(self, item: T, deadline: float) -> None:
        entry = (deadline, next(self._sequence))
        self._due[item] = entry
        heapq.heappush(self._heap, (*entry, item))
        if len(self._heap) > 2 * len(self._due) + _MIN_COMPACTION:
            self._heap = [(*current, waiting) for waiting, current in self._due.items()]
            heapq.heapify(self._heap)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._deliver, name=f"workqueue-delay-{self.name or 'unnamed'}", daemon=True
            )
            self._thread.start()
        if self._heap[0][1] == entry[1]:
            self._changed.notify_all()

    def _stop_delaying(self) -> None:
        with self._delay_lock:
            self._stopped = True
            self._heap.clear()
            self._due.clear()
            self._changed.notify_all()
            thread = self._thread
        # The thread takes only this queue's locks and calls only the queue's own code: the join takes microseconds.
        if thread is not None:
            thread.join()

    def _deliver(self) -> None:
        while True:
            with self._delay_lock:
                while not self._stopped and not (ready := self._take_due()):
                    self._clock.wait_until(self._changed, self._heap[0][0] if self._heap else None)
                if self._stopped:
                    return
            for item in ready:
                self.add(item)
            # A sleeping thread must not keep delivered items alive.
            del ready, item

    def _take_due(self) -> list[T]:
        now = self._clock.monotonic()
        ready: list[T] = []
        while self._heap:
            deadline, sequence, item = self._heap[0]
            current = self._due.get(item)
            if current is not None and current[1] == sequence:
                if deadline > now:
                    break
                del self._due[item]
                ready.append(item)
            heapq.heappop(self._heap)
        return ready


class RateLimitingQueue(DelayingQueue[T]):
    """A `DelayingQueue` in which an item waits after failures.

    After n failures in a row, the item waits `base * 2**(n-1)` seconds, at most `cap`. After a failure call
    `add_rate_limited(item)`. After a success (or when giving up) call `forget(item)`. In both cases call `done(item)`:
    `forget` only clears the item's failures, and `done` only ends the processing.

    There are two limits with different purposes: the exponential backoff of each item, and the bucket for all items.
    Because of the backoff, an item that always fails can't take all attempts. Because of the bucket, an outage in which
    all items fail at the same time can't cause the same number of retries at the same time.
    """

    def __init__(
        self,
        *,
        base: float,
        cap: float,
        bucket: TokenBucket | None = None,
        name: str = "",
        clock: Clock | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        """Initialize; with a `bucket`, each failure takes a token, and the item waits at least until the token is
        available. Raises ValueError unless `0 < base <= cap`.
        """
        if base <= 0 or cap < base:
            raise ValueError(f"need 0 < base <= cap seconds, got base={base} and cap={cap}")
        super().__init__(name=name, clock=clock, metrics=metrics)
        self._base = base
        self._cap = cap
        self._bucket = bucket
        self._failures_lock = threading.Lock()  # guards _failures
        self._failures: dict[T, int] = {}

    def add_rate_limited(self, item: T, *, at_least: float = 0.0) -> None:
        """Count a failure. Add the item when its wait is over, but not before `at_least` seconds have passed."""
        with self._failures_lock:
            failures = self._failures.get(item, 0)
            self._failures[item] = failures + 1
        wait = min(self._cap, self._base * 2.0 ** min(failures, _MAX_EXPONENT))
        token = 0.0 if self._bucket is None else self._bucket.reserve()
        self.add_after(item, max(wait, token, at_least))

    def forget(self, item: T) -> None:
        """Forget the item's failures. If the item is in the queue, it stays there."""
        with self._failures_lock:
            self._failures.pop(item, None)

    def num_requeues(self, item: T) -> int:
        """Return the number of rate-limited adds of the item since it was last forgotten."""
        with self._failures_lock:
            return self._failures.get(item, 0)
