"""A number of replicas, or a percentage of them: `3` or `"80%"`, as Kubernetes writes them in its own policies. Pure.

A percentage refers to the current number of replicas, which may change while the job runs. A percentage of required
replicas is rounded up, and a percentage of allowed replicas is rounded down. So the rounded number never requires less,
and never allows more, than the user's percentage.
"""

from __future__ import annotations

from tfoperator.api.fields.limits import Pattern

IntOrPercent = int | str
"""A number or a percentage as in a spec."""

NUMBER_OR_PERCENT = Pattern(
    "^(100|[1-9]?[0-9])%$", 'must be a number from 0 or a percentage from "0%" to "100%", but is {}'
)
POSITIVE_NUMBER_OR_PERCENT = Pattern(
    "^(100|[1-9][0-9]?)%$", 'must be a number from 1 or a percentage from "1%" to "100%", but is {}'
)
"""The pattern of percentages for fields with numbers from 1; NUMBER_OR_PERCENT is for fields with numbers from 0."""


def required(value: IntOrPercent, total: int) -> int:
    """Return how many of `total` are required: rounded up, at least 1 and at most `total`.

    An unreadable value means all.
    """
    hundredths = _hundredths(value, total)
    wanted = total if hundredths is None else -(-hundredths // 100)
    return min(max(wanted, 1), total)


def allowed(value: IntOrPercent, total: int) -> int:
    """Return how many of `total` are allowed: rounded down, at most `total`. An unreadable value means none."""
    hundredths = _hundredths(value, total)
    return 0 if hundredths is None else min(max(hundredths // 100, 0), total)


def _hundredths(value: IntOrPercent, total: int) -> int | None:
    if isinstance(value, int):
        return value * 100
    return int(value[:-1]) * total if NUMBER_OR_PERCENT.fits(value) else None
