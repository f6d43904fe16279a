"""When to retry: a jittered backoff for loops that never stop, and a few attempts for a read-modify-write.

This project uses the library tenacity if it retries a single call several times, with pauses. Other loops are written
by hand: loops that decide again before each attempt (leases, journals, locks), loops that follow a watch or a log, and
the requests of `http.sending.session`. Nearly all these requests need only one attempt, and tenacity would cost extra
CPU for each request.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_fixed, wait_random

from tfoperator.base.clock import Clock
from tfoperator.kube.protocol.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    TooManyRequestsError,
    UnauthorizedError,
    is_outage,
)

T = TypeVar("T")

BASE = 0.8
FACTOR = 2.0
JITTER = 1.0
RESET_AFTER = 120.0

ANSWERED_CAP = 30.0
"""The longest delay, in seconds before jitter, after an attempt that a healthy server refused (403, 404, 410, 422, 429
...).
"""

OUTAGE_CAP = 4.0
"""The longest delay, in seconds before jitter, after an attempt on a server that fails (no connection, broken streams,
5xx).

This is shorter than client-go's 30 s, which can become 60 s by jitter. The reason: if an object changes during an
outage, the cache must show the change within 15 s after the server is available again. The last wait may have begun
just before that moment. With this cap, the last wait takes less than 8 s. So there is time for two more attempts, if
the server refuses requests while it starts up. The waits after refused requests have a separate backoff, and the first
two take less than 1.6 s and 3.2 s. A single attempt per watch every 4 to 8 s is a small load for an API server.
"""

LONGEST_WISH = 60.0
"""Seconds. If the `Retry-After` header requests a longer wait, the client waits only for this time. During maintenance,
load balancers request waits of hours, and do not notify clients when the maintenance ends earlier. A cache must not be
outdated for hours.
"""

STARTING_SECONDS = 30.0
"""Seconds. For so long after an outage, an API server may refuse requests because it has just started."""

_MAX_ATTEMPTS = 5
_RETRY_DELAY = 0.010  # seconds; both as in client-go's DefaultRetry: conflicts are short races, not outages


class Backoff:
    """A sequence of delays: BASE, BASE * FACTOR, and so on, up to `cap`.

    Each delay is increased at random by up to JITTER times its length. The sequence starts again if RESET_AFTER seconds
    have passed since the last call of `next`. The numbers are the same as in client-go's reflector: the first
    delay is 0.8 s, each delay is twice the delay before it, the jitter is at most as long as the delay, and the
    sequence starts again after two minutes without a call. Not thread-safe.
    """

    def __init__(self, *, cap: float, clock: Clock, rng: random.Random) -> None:
        self._cap = cap
        self._clock = clock
        self._rng = rng
        self._current = BASE
        self._asked_at: float | None = None

    def forget(self) -> None:
        """Begin with the shortest delay again, because the earlier failure is over."""
        self._current = BASE

    def next(self) -> float:
        """Return the seconds to wait before the next attempt, and make the next delay longer."""
        now = self._clock.monotonic()
        if self._asked_at is not None and now - self._asked_at > RESET_AFTER:
            self._current = BASE
        self._asked_at = now
        delay = min(self._current, self._cap)
        self._current = min(delay * FACTOR, self._cap)
        return delay * (1.0 + JITTER * self._rng.random())


class FailureBackoff:
    """Computes how long to wait after a failure, from the kind of the failure and the server's `Retry-After`.

    An object serves only one thread.
    """

    def __init__(self, *, clock: Clock, rng: random.Random) -> None:
        # Counted apart: a server that comes back from an outage may refuse the first requests (403 before its roles are
        # loaded, 429), and these refusals must not inherit the backoff of the outage.
        self._outage = Backoff(cap=OUTAGE_CAP, clock=clock, rng=rng)
        self._answered = Backoff(cap=ANSWERED_CAP, clock=clock, rng=rng)

    def forget_outage(self) -> None:
        """Begin with the shortest delay at the next outage, because the server is reachable.

        The delays after other failures (responses such as 403 or 429) are counted separately and stay the same.
        """
        self._outage.forget()

    def after(self, error: Exception) -> float:
        """Return the seconds to wait after this error before the next attempt.

        If the server sent a `Retry-After`, the result is at least the smaller of this time and LONGEST_WISH.
        """
        delay = (self._outage if is_outage(error) else self._answered).next()
        if isinstance(error, ApiError) and error.retry_after is not None:
            delay = max(delay, min(error.retry_after, LONGEST_WISH))
        return delay


class Outages:
    """Distinguishes temporary failures from lasting refusals, for a client that follows objects or a log for long.

    An API server that has just started refuses requests (403, 401) until it has read its roles and accounts. So for
    `STARTING_SECONDS` after an outage, such a refusal counts as a part of the outage. Not thread-safe.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest = -math.inf  # the last failure of the server or the network, on the monotonic clock

    def passes(self, error: BaseException) -> bool:
        """Record the failure, and return whether a later attempt may succeed without a change by a person."""
        now = self._clock.monotonic()
        if is_outage(error):
            self._latest = now
            return True
        refused = isinstance(error, ForbiddenError | UnauthorizedError)
        return isinstance(error, TooManyRequestsError) or (refused and now < self._latest + STARTING_SECONDS)


def retry_on_conflict(fn: Callable[[], T], *, sleep: Callable[[float], None] | None = None) -> T:
    """Call `fn` until it raises no `ConflictError`.

    `fn` is called at most 5 times, with pauses of 10 ms (plus up to 10 %). In each call, `fn` must read the object,
    change it and write it. The last conflict is raised unchanged. Any other error, and also AlreadyExistsError, ends
    the calls at once.
    """
    retrying = Retrying(
        stop=stop_after_attempt(_MAX_ATTEMPTS),
        wait=wait_fixed(_RETRY_DELAY) + wait_random(0, _RETRY_DELAY * 0.1),
        retry=retry_if_exception(_is_conflict),
        reraise=True,
    )
    return retrying.copy(sleep=sleep)(fn) if sleep else retrying(fn)


def failure_of(state: RetryCallState) -> BaseException:
    """Return the error of the last failed attempt.

    `state` is the argument of the callbacks of tenacity's `Retrying`.
    """
    error = state.outcome.exception() if state.outcome else None
    assert error is not None
    return error


def _is_conflict(error: BaseException) -> bool:
    # A name that is taken stays taken: only an outdated resourceVersion is worth another try.
    return isinstance(error, ConflictError) and not isinstance(error, AlreadyExistsError)
