"""Describes in words how a job has used its time and resources. Pure."""

from __future__ import annotations

from datetime import datetime

from tfoperator.api.v1.status import JobUsage, UsagePhase
from tfoperator.base.durations import human_duration

_GIB = 2.0**30

_MIN_SECONDS = 10
"""If a job took less than this number of seconds, its share of training time is not shown, because that share has no
meaning. The page has the same limit (`time.js`).
"""


def usage_text(usage: JobUsage, now: datetime) -> str:
    """Return a text like `training 87% of the time: training 2m54s, starting 20s, queued 6s (from progress reports)`.

    Training comes first, and the other phases follow, the longest first. The text is empty if no time has passed, and
    for a job that ended within seconds, because the states of pods are not exact to the second.
    """
    seconds, percent = usage.until(now), usage.goodput_at(now)
    if percent is None or (not usage.phase and sum(seconds.values()) < _MIN_SECONDS):
        return ""
    longest = sorted(seconds.items(), key=lambda spent: (spent[0] != UsagePhase.TRAINING, -spent[1]))
    parts = ", ".join(f"{phase} {human_duration(spent)}" for phase, spent in longest if spent)
    source = "progress reports" if usage.is_reported else "the states of pods"
    return f"training {percent}% of the time: {parts} (from {source})"


def resources_text(usage: JobUsage, now: datetime) -> str:
    """Return a text such as `cpu 4.2 h (3.6 trained), memory 8.4 GiB h (7.2 trained)`; empty without used resources."""
    parts = []
    for name, held_resource in usage.resources_until(now).items():
        unit, size = (" GiB h", _GIB) if name == "memory" else (" h", 1.0)
        hours = (seconds / 3600 / size for seconds in (held_resource.requested_seconds, held_resource.trained_seconds))
        held, trained = (f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}" for figure in hours)
        parts.append(f"{name} {held}{unit} ({trained} trained)")
    return ", ".join(parts)
