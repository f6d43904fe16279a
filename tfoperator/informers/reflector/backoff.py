"""Jittered exponential backoff for a loop that never gives up and must not overload a server.

The numbers are those of client-go's reflector (0.8 s doubling to 30 s, up to twice that by jitter, forgotten after
two quiet minutes), save that an *outage* has a lower cap: see `OUTAGE_CAP`.
"""

from __future__ import annotations

import random

from tfoperator.base.clock import Clock, SystemClock

BASE = 0.8
FACTOR = 2.0
JITTER = 1.0
RESET_AFTER = 120.0

ANSWERED_CAP = 30.0
"""Seconds, before jitter, between attempts that a healthy server turns down (403, 404, 410, 422, 429 ...)."""

OUTAGE_CAP = 4.0
"""Seconds, before jitter, between attempts on a server that is not there (no connection, broken streams, 5xx).

Deliberately not client-go's 30 s, which jitter can make 60: a change that happened during an outage is to be seen
within 15 s of the server's return, and the last wait before the return may have only just begun. With this cap it
lasts less than 8 s, which leaves room for two more tries while the server warms up (at most 1.6 + 3.2 s, since
rejections back off on a count of their own). One attempt per 4 to 8 s and watch is no load for an API server.
"""

LONGEST_WISH = 60.0
"""Seconds; a server that asks to be left alone for longer is asked again all the same. Load balancers do so for hours
of maintenance, and tell nobody when it is over sooner: no cache must be blind for that.
"""


class Backoff:
    """A sequence of delays: BASE, BASE * FACTOR, ... `cap`, each stretched by up to JITTER times itself.

    Starts over when RESET_AFTER seconds have passed since the last delay was asked for. For one thread.
    """

    def __init__(self, *, cap: float, clock: Clock | None = None, rng: random.Random | None = None) -> None:
        self._cap = cap
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._current = BASE
        self._asked_at: float | None = None

    def forget(self) -> None:
        """Begin with the shortest delay again: what went wrong before is over."""
        self._current = BASE

    def next(self) -> float:
        """The seconds to wait before the next attempt."""
        now = self._clock.monotonic()
        if self._asked_at is not None and now - self._asked_at > RESET_AFTER:
            self._current = BASE
        self._asked_at = now
        delay = min(self._current, self._cap)
        self._current = min(delay * FACTOR, self._cap)
        return delay * (1.0 + JITTER * self._rng.random())
