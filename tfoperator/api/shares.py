"""A number of replicas, or a share of them: `3` or `"80%"`, as Kubernetes writes them in its own policies. Pure.

A share is of the replicas that there are at the moment, since their number may change while the job runs. Which way it
is rounded is the asker's: what must be reached is rounded up, and what is allowed down, so that neither says less than
the user does.
"""

from __future__ import annotations

import re

__all__ = ["PERCENT_PATTERN", "POSITIVE_PERCENT_PATTERN", "Share", "allowed", "required"]

Share = int | str
"""As it stands in a spec."""

PERCENT_PATTERN = "^(100|[1-9]?[0-9])%$"
POSITIVE_PERCENT_PATTERN = "^(100|[1-9][0-9]?)%$"

_PERCENT = re.compile(PERCENT_PATTERN, re.ASCII)


def required(share: Share, total: int) -> int:
    """At least so many of `total`: rounded up, at least one and at most all of them. What makes no sense means all."""
    hundredths = _hundredths(share, total)
    wanted = total if hundredths is None else -(-hundredths // 100)
    return min(max(wanted, 1), total)


def allowed(share: Share, total: int) -> int:
    """At most so many of `total`: rounded down. What makes no sense means none."""
    hundredths = _hundredths(share, total)
    return 0 if hundredths is None else min(max(hundredths // 100, 0), total)


def _hundredths(share: Share, total: int) -> int | None:
    if isinstance(share, int):
        return share * 100
    return int(share[:-1]) * total if _PERCENT.fullmatch(share) else None
