"""The queue a controller works from: failed items come back with growing delays, successes reset them.

The two limits have different purposes. Exponential backoff keeps one item that always fails from taking all attempts;
the bucket keeps an outage, in which all items fail at once, from causing as many retries at once.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import TypeVar

from tfoperator.base.clock import Clock
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.workqueue.delaying_queue import DelayingQueue
from tfoperator.workqueue.metrics import MetricsProvider

T = TypeVar("T", bound=Hashable)

_MAX_EXPONENT = 1000  # 2.0**1000 is a finite float; powers above 1023 would raise OverflowError


class RateLimitingQueue(DelayingQueue[T]):
    """A `DelayingQueue` in which the n-th failure of an item in a row waits `base * 2**(n-1)` seconds, at most `cap`.

    After a failure call `add_rate_limited(item)`, after a success (or when giving up) `forget(item)`, and in
    both cases `done(item)`: `forget` only clears the item's failures, `done` only ends the processing.
    """

    def __init__(
        self,
        *,
        base: float,
        cap: float,
        bucket: TokenBucket | None = None,
        name: str = "",
        clock: Clock | None = None,
        metrics: MetricsProvider | None = None,
    ) -> None:
        """Initialize; with a `bucket` each failure takes a token, and waits at least for that. Raises ValueError."""
        if base <= 0 or cap < base:
            raise ValueError(f"need 0 < base <= cap seconds, got base={base} and cap={cap}")
        super().__init__(name=name, clock=clock, metrics=metrics)
        self._base = base
        self._cap = cap
        self._bucket = bucket
        self._failures_lock = threading.Lock()  # guards _failures
        self._failures: dict[T, int] = {}

    def add_rate_limited(self, item: T, *, at_least: float = 0.0) -> None:
        """Count a failure, and add the item when its wait is over, but not before `at_least` seconds have passed."""
        with self._failures_lock:
            failures = self._failures.get(item, 0)
            self._failures[item] = failures + 1
        wait = min(self._cap, self._base * 2.0 ** min(failures, _MAX_EXPONENT))
        token = 0.0 if self._bucket is None else self._bucket.reserve()
        self.add_after(item, max(wait, token, at_least))

    def forget(self, item: T) -> None:
        """Forget the item's failures; its place in the queue is not touched."""
        with self._failures_lock:
            self._failures.pop(item, None)

    def num_requeues(self, item: T) -> int:
        """Return the number of rate-limited adds of the item since it was last forgotten."""
        with self._failures_lock:
            return self._failures.get(item, 0)
