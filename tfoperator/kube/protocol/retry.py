"""When to retry: a jittered backoff for loops that never give up, and a few attempts of a read-modify-write.

tenacity serves where one call is tried several times with pauses. The other loops are written here: those that decide
anew before each try (leases, journals, locks), those that follow something (watches, logs, preflight), and the requests
of a session, nearly all of which need one attempt and should cost no extra CPU.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_fixed, wait_random

from tfoperator.base.clock import Clock
from tfoperator.kube.protocol.errors import AlreadyExistsError, ApiError, ConflictError, is_outage

T = TypeVar("T")

BASE = 0.8
FACTOR = 2.0
JITTER = 1.0
RESET_AFTER = 120.0

ANSWERED_CAP = 30.0
"""Seconds, before jitter, between attempts that a healthy server refuses (403, 404, 410, 422, 429 ...)."""

OUTAGE_CAP = 4.0
"""Seconds, before jitter, between attempts on an unreachable server (no connection, broken streams, 5xx).

Deliberately not client-go's 30 s, which jitter can make 60: a cache must show a change that happens during an outage
within 15 s of the server's return, and the last wait may have begun just before the return. With this cap it
lasts less than 8 s, which leaves time for two more attempts while the server warms up (at most 1.6 + 3.2 s, since
rejections have a separate backoff). One attempt per watch every 4 to 8 s is no load for an API server.
"""

LONGEST_WISH = 60.0
"""Seconds; the longest `Retry-After` that the client respects. Load balancers ask for hours during maintenance, and do
not notify clients when it ends sooner; a cache must not be stale that long.
"""

_MAX_ATTEMPTS = 5
_RETRY_DELAY = 0.010  # seconds; both as in client-go's DefaultRetry: conflicts are short races, not outages


class Backoff:
    """A sequence of delays: BASE, BASE * FACTOR, ... `cap`, each stretched by up to JITTER times itself.

    Starts over when RESET_AFTER seconds have passed since the last call of `next`. The numbers are the same as in
    client-go's reflector (0.8 s doubling, up to twice that by jitter, forgotten after two quiet minutes). Not
    thread-safe.
    """

    def __init__(self, *, cap: float, clock: Clock, rng: random.Random) -> None:
        self._cap = cap
        self._clock = clock
        self._rng = rng
        self._current = BASE
        self._asked_at: float | None = None

    def forget(self) -> None:
        """Begin with the shortest delay again: the failure before is over."""
        self._current = BASE

    def next(self) -> float:
        """Return the seconds to wait before the next attempt."""
        now = self._clock.monotonic()
        if self._asked_at is not None and now - self._asked_at > RESET_AFTER:
            self._current = BASE
        self._asked_at = now
        delay = min(self._current, self._cap)
        self._current = min(delay * FACTOR, self._cap)
        return delay * (1.0 + JITTER * self._rng.random())


class FailureBackoff:
    """How long to wait after a failure, by its kind and the server's `Retry-After`. For one thread."""

    def __init__(self, *, clock: Clock, rng: random.Random) -> None:
        # Counted apart: a server that comes back from an outage may refuse the first requests (403 before its roles are
        # loaded, 429), and these refusals must not inherit the backoff of the outage.
        self._outage = Backoff(cap=OUTAGE_CAP, clock=clock, rng=rng)
        self._answered = Backoff(cap=ANSWERED_CAP, clock=clock, rng=rng)

    def forget_outage(self) -> None:
        """Begin with the shortest delay again: the server is reachable."""
        self._outage.forget()

    def after(self, error: Exception) -> float:
        """Return the seconds to wait before the next attempt."""
        delay = (self._outage if is_outage(error) else self._answered).next()
        if isinstance(error, ApiError) and error.retry_after is not None:
            delay = max(delay, min(error.retry_after, LONGEST_WISH))
        return delay


def retry_on_conflict(fn: Callable[[], T], *, sleep: Callable[[float], None] | None = None) -> T:
    """Call `fn` until it meets no `ConflictError`: at most 5 times, 10 ms (plus up to 10 %) apart.

    `fn` must read the object each time, change it and write it. The last conflict is raised as it is;
    any other error ends it at once.
    """
    retrying = Retrying(
        stop=stop_after_attempt(_MAX_ATTEMPTS),
        wait=wait_fixed(_RETRY_DELAY) + wait_random(0, _RETRY_DELAY * 0.1),
        retry=retry_if_exception(_is_conflict),
        reraise=True,
    )
    return retrying.copy(sleep=sleep)(fn) if sleep else retrying(fn)


def failure_of(state: RetryCallState) -> BaseException:
    """Return the error of the last failed try of any of tenacity's `Retrying`."""
    error = state.outcome.exception() if state.outcome else None
    assert error is not None
    return error


def _is_conflict(error: BaseException) -> bool:
    # A name that is taken stays taken: only an outdated resourceVersion is worth another try.
    return isinstance(error, ConflictError) and not isinstance(error, AlreadyExistsError)
