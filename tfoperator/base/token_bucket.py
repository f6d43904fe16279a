"""A token bucket that returns waiting times, or refuses; it never sleeps itself.

A caller reserves a token, and then waits until it may use the token. So callers get their tokens in the order of their
calls and at even intervals. The callers themselves sleep, so they can be interrupted.
"""

from __future__ import annotations

import math
import threading

from tfoperator.base.clock import Clock, SystemClock


class TokenBucket:
    """Gives `qps` tokens per second and saves up to `burst` tokens; with a `qps` of 0 or less there is no limit.

    Thread-safe. Raises ValueError for a limit with a `burst` below 1, because callers would wait for ever.
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
        """Take one token, and return after how many seconds the caller may use it (0.0: at once)."""
        if self._qps <= 0:
            return 0.0
        with self._lock:
            self._refill(self._clock.monotonic())
            self._tokens -= 1.0
            return max(0.0, -self._tokens / self._qps)

    def take(self, now: float) -> bool:
        """Take one token if there is a token at the time `now` (monotonic); return whether there was a token."""
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
