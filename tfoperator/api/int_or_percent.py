"""A number of replicas, or a percentage of them: `3` or `"80%"`, as Kubernetes writes them in its own policies. Pure.

A percentage is of the replicas that there are at the moment, since their number may change while the job runs. What
must be reached is rounded up, and what is allowed is rounded down, so that neither says less than the user does.
"""

from __future__ import annotations

import re

IntOrPercent = int | str
"""As it stands in a spec."""

PERCENT_PATTERN = "^(100|[1-9]?[0-9])%$"
POSITIVE_PERCENT_PATTERN = "^(100|[1-9][0-9]?)%$"

_PERCENT = re.compile(PERCENT_PATTERN, re.ASCII)


def required(value: IntOrPercent, total: int) -> int:
    """How many of `total` must be reached: rounded up, at least one, at most all. An unreadable value means all."""
    hundredths = _hundredths(value, total)
    wanted = total if hundredths is None else -(-hundredths // 100)
    return min(max(wanted, 1), total)


def allowed(value: IntOrPercent, total: int) -> int:
    """How many of `total` are allowed: rounded down, at most all. An unreadable value means none."""
    hundredths = _hundredths(value, total)
    return 0 if hundredths is None else min(max(hundredths // 100, 0), total)


def _hundredths(value: IntOrPercent, total: int) -> int | None:
    if isinstance(value, int):
        return value * 100
    return int(value[:-1]) * total if _PERCENT.fullmatch(value) else None
