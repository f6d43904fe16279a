"""The client's own speed limit: a token bucket that hands out waiting times and never sleeps itself.

It keeps one faulty controller from hurting an API server. Reserving (rather than trying) keeps requests in the
order in which they came, and leaves the sleeping to the caller, who can be interrupted.
"""

from __future__ import annotations

import threading

from tfoperator.clock import Clock, SystemClock

__all__ = ["TokenBucket"]


class TokenBucket:
    """`qps` tokens per second, at most `burst` saved up. A negative `qps` disables it. Thread-safe.

    Raises ValueError for a `qps` of 0 or a `burst` below 1: either would block for ever.
    """

    def __init__(self, qps: float, burst: int, *, clock: Clock | None = None) -> None:
        if qps == 0 or (qps > 0 and burst < 1):
            raise ValueError(f"qps must not be 0 and burst must be 1 or more, got {qps} and {burst}")
        self._qps = qps
        self._burst = burst
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards _tokens and _updated
        self._tokens = float(burst)
        self._updated = self._clock.monotonic()

    def reserve(self) -> float:
        """Take one token and return the seconds to wait before using it (0.0: go ahead)."""
        if self._qps < 0:
            return 0.0
        with self._lock:
            now = self._clock.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._qps) - 1.0
            self._updated = now
            return max(0.0, -self._tokens / self._qps)
