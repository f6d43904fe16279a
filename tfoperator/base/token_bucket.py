"""A token bucket that returns waiting times, or refuses, and never sleeps itself.

A caller reserves a token and waits for it. So callers are served in their order of arrival, evenly spread, and the
caller sleeps itself, and can be interrupted.
"""

from __future__ import annotations

import math
import threading

from tfoperator.base.clock import Clock, SystemClock


class TokenBucket:
    """`qps` tokens per second, at most `burst` saved up; no limit with a `qps` of 0 or less. Thread-safe.

    Raises ValueError for a limit with a `burst` below 1, which would block for ever.
    """

    def __init__(self, qps: float, burst: int, *, clock: Clock | None = None) -> None:
        if qps > 0 and burst < 1:
            raise ValueError(f"burst must be 1 or more, got {burst}")
        self._qps = qps
        self._burst = burst
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards _tokens and _updated
        self._tokens = float(burst)
        self._updated = -math.inf

    def reserve(self) -> float:
        """Take one token and return the seconds to wait before using it (0.0: go ahead)."""
        if self._qps <= 0:
            return 0.0
        with self._lock:
            self._refill(self._clock.monotonic())
            self._tokens -= 1.0
            return max(0.0, -self._tokens / self._qps)

    def take(self, now: float) -> bool:
        """Take one token if there is one at `now` (monotonic)."""
        if self._qps <= 0:
            return True
        with self._lock:
            self._refill(now)
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._qps)
        self._updated = now
