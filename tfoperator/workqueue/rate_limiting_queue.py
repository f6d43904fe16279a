"""The queue a controller works from: failures come back later and later, successes forget their failures."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from tfoperator.base.clock import Clock
from tfoperator.workqueue.delaying_queue import DelayingQueue
from tfoperator.workqueue.metrics import MetricsProvider
from tfoperator.workqueue.rate_limiters import RateLimiter

T = TypeVar("T", bound=Hashable)


class RateLimitingQueue(DelayingQueue[T]):
    """A `DelayingQueue` whose delays come from a `RateLimiter`.

    After a failure call `add_rate_limited(item)`, after a success (or when giving up) `forget(item)`, and in
    both cases `done(item)`: `forget` only clears the limiter, `done` only ends the processing.
    """

    def __init__(
        self,
        limiter: RateLimiter[T],
        *,
        name: str = "",
        clock: Clock | None = None,
        metrics: MetricsProvider | None = None,
    ) -> None:
        super().__init__(name=name, clock=clock, metrics=metrics)
        self._limiter = limiter

    def add_rate_limited(self, item: T, *, at_least: float = 0.0) -> None:
        """Add the item when the limiter allows it, and not before `at_least` seconds have passed."""
        self.add_after(item, max(self._limiter.when(item), at_least))

    def forget(self, item: T) -> None:
        """Let the limiter forget the item's failures; the item's place in the queue is not touched."""
        self._limiter.forget(item)

    def num_requeues(self, item: T) -> int:
        """How often the item was added rate-limited since it was last forgotten."""
        return self._limiter.num_requeues(item)
