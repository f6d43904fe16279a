"""When, and how often, something is tried again: exponential backoff with jitter, not before a server's Retry-After.

Two things are repeated, each by its own policy: single requests to a platform's API, while its failures are transient,
and whole executions, when one was lost with its node or its output.json asks for another try.
"""

from __future__ import annotations

from random import Random

import msgspec


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

CLEAN_UP_POLICY = RetryPolicy(attempts=5, initial=0.5, maximum=5.0)
"""For removing containers: shorter, because a failure is only logged."""

API_POLICY = RetryPolicy(attempts=12, initial=0.5, maximum=30.0)
"""For requests: some 3 minutes, which outlasts the restart of an API server."""
