"""The queue a controller works from: failures come back later and later, successes forget their failures.

Two limits answer different questions. Exponential backoff keeps one item that always fails from taking all attempts;
the bucket keeps an outage, in which all items fail at once, from causing as many retries at once. The bucket's size is
client-go's, so that operators who know one controller know this one.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from tfoperator.base.clock import Clock
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.workqueue.delaying_queue import DelayingQueue
from tfoperator.workqueue.metrics import MetricsProvider

T = TypeVar("T", bound=Hashable)
T_contra = TypeVar("T_contra", contravariant=True)

_MAX_EXPONENT = 1000  # 2.0**1000 is a finite float; any larger power would only raise OverflowError beyond 1023


class RateLimiter(Protocol[T_contra]):
    """Decides how long an item waits. Implementations are thread-safe."""

    def when(self, item: T_contra) -> float:
        """Seconds until the item may be tried again; counts as one failure of the item."""
        ...

    def forget(self, item: T_contra) -> None:
        """The item has succeeded, or will never be tried again: its failures no longer matter."""
        ...

    def num_requeues(self, item: T_contra) -> int:
        """How many times `when` was called for the item since it was last forgotten."""
        ...


class ExponentialFailureRateLimiter(Generic[T]):
    """`base * 2**failures` seconds per item, at most `cap`."""

    def __init__(self, base: float, cap: float) -> None:
        if base <= 0 or cap < base:
            raise ValueError(f"need 0 < base <= cap seconds, got base={base} and cap={cap}")
        self._base = base
        self._cap = cap
        self._lock = threading.Lock()  # guards _failures
        self._failures: dict[T, int] = {}

    def when(self, item: T) -> float:
        """Seconds for this failure of the item; the next will wait twice as long."""
        with self._lock:
            failures = self._failures.get(item, 0)
            self._failures[item] = failures + 1
        return min(self._cap, self._base * 2.0 ** min(failures, _MAX_EXPONENT))

    def forget(self, item: T) -> None:
        """Start again at `base` for this item."""
        with self._lock:
            self._failures.pop(item, None)

    def num_requeues(self, item: T) -> int:
        """Failures of the item since it was last forgotten."""
        with self._lock:
            return self._failures.get(item, 0)


class BucketRateLimiter:
    """A token bucket over all items: `burst` at once, then `qps` a second.

    A call that finds no token takes a future one and answers with the time until that token exists.
    """

    def __init__(self, qps: float = 10.0, burst: int = 100, *, clock: Clock | None = None) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"need qps > 0 and burst >= 1, got qps={qps} and burst={burst}")
        self._bucket = TokenBucket(qps, burst, clock=clock)

    def when(self, item: object) -> float:  # noqa: ARG002 - the budget is shared by all items
        """Take a token; seconds until it is there."""
        return self._bucket.reserve()

    def forget(self, item: object) -> None:
        """Nothing is remembered about single items."""

    def num_requeues(self, item: object) -> int:  # noqa: ARG002 - the protocol's signature
        """Always 0."""
        return 0


class MaxOfRateLimiter(Generic[T]):
    """The longest wait that any of several limiters asks for. Every one is asked every time, so tokens are used up."""

    def __init__(self, *limiters: RateLimiter[T]) -> None:
        if not limiters:
            raise ValueError("need at least one rate limiter")
        self._limiters = limiters

    def when(self, item: T) -> float:
        """The longest of all waits, in seconds."""
        return max([limiter.when(item) for limiter in self._limiters])

    def forget(self, item: T) -> None:
        """Forget the item in every limiter."""
        for limiter in self._limiters:
            limiter.forget(item)

    def num_requeues(self, item: T) -> int:
        """The largest count of all limiters."""
        return max(limiter.num_requeues(item) for limiter in self._limiters)


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
