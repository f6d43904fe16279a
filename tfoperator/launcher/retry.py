"""When, and how often, something is tried again: exponential backoff with jitter, and a server's wish comes first.

Two things are repeated, each by its own policy. Single requests to a platform's API, while it fails in a way that
passes; and whole executions, when one was taken away or says itself that another try could help.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import TypeVar

import msgspec
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

from tfoperator.clock import Clock, StopSignal
from tfoperator.launcher.errors import LaunchCancelled

__all__ = ["API_POLICY", "DEFAULT_POLICY", "RetryPolicy", "repeated"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


class RetryPolicy(msgspec.Struct, frozen=True):
    """At most `attempts` tries, the first included. Before try n+1 it waits `initial * 2**(n-1)` seconds.

    That is capped at `maximum`, then made up to `jitter` (a share) shorter at random; a server's Retry-After is a lower
    bound, itself capped at `longest_retry_after`.
    """

    attempts: int = 3
    initial: float = 5.0
    maximum: float = 300.0
    jitter: float = 0.5
    longest_retry_after: float = 600.0

    def delay(self, failed: int, retry_after: float | None, random: Random) -> float:
        """Seconds to wait after `failed` tries."""
        seconds = min(self.maximum, self.initial * 2.0 ** min(failed - 1, 64))
        seconds *= 1 - self.jitter * random.random()
        return max(seconds, min(retry_after or 0.0, self.longest_retry_after))


DEFAULT_POLICY = RetryPolicy()
"""For executions: the design gives no numbers, so these are ours."""

API_POLICY = RetryPolicy(attempts=12, initial=0.5, maximum=30.0)
"""For requests: some 3 minutes, which outlasts the restart of an API server."""


def repeated(
    work: Callable[[], T],
    policy: RetryPolicy,
    worth_it: Callable[[BaseException], bool],
    *,
    clock: Clock,
    cancelled: StopSignal,
    random: Random,
    what: str,
) -> T:
    """What `work` returns, once it does. Its last error is raised as it is; LaunchCancelled while waiting."""

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        return policy.delay(state.attempt_number, getattr(error, "retry_after", None), random)

    def pause(seconds: float) -> None:
        if cancelled.wait(clock, seconds):
            raise LaunchCancelled(f"{what}: cancelled")

    def tell(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        seconds = state.next_action.sleep if state.next_action else 0.0
        logger.warning(
            "%s: try %d of %d failed, again in %.1f s: %s", what, state.attempt_number, policy.attempts, seconds, error
        )

    retrying = Retrying(
        stop=stop_after_attempt(policy.attempts),
        wait=wait,
        retry=retry_if_exception(worth_it),
        sleep=pause,
        before_sleep=tell,
        reraise=True,
    )
    result: T = retrying(work)
    return result
