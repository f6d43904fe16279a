"""A number of replicas, or a percentage of them: `3` or `"80%"`, as Kubernetes writes them in its own policies. Pure.

A percentage is of the current number of replicas, which may change while the job runs. A required number is rounded up,
and an allowed number is rounded down, so that neither is weaker than the user's value.
"""

from __future__ import annotations

import re

IntOrPercent = int | str
"""A number or a percentage as in a spec."""

PERCENT_PATTERN = "^(100|[1-9]?[0-9])%$"
POSITIVE_PERCENT_PATTERN = "^(100|[1-9][0-9]?)%$"

_PERCENT = re.compile(PERCENT_PATTERN, re.ASCII)


def required(value: IntOrPercent, total: int) -> int:
    """Return the required number of `total`: rounded up, from one to all. An unreadable value means all."""
    hundredths = _hundredths(value, total)
    wanted = total if hundredths is None else -(-hundredths // 100)
    return min(max(wanted, 1), total)


def allowed(value: IntOrPercent, total: int) -> int:
    """Return the allowed number of `total`: rounded down, at most all. An unreadable value means none."""
    hundredths = _hundredths(value, total)
    return 0 if hundredths is None else min(max(hundredths // 100, 0), total)


def _hundredths(value: IntOrPercent, total: int) -> int | None:
    if isinstance(value, int):
        return value * 100
    return int(value[:-1]) * total if _PERCENT.fullmatch(value) else None
