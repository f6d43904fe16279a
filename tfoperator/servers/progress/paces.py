"""Finds the slow replicas of a job from their reports. Pure; memory is bounded per replica.

A pace is seconds per step, over the newest reports without the longest pause among them: an evaluation, a checkpoint.
It is compared with the median of the replica's type. `hack/straggler_alarms.py` decides the numbers below: jitter of
real loops against replicas that get slow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import median_low

from tfoperator.servers.progress.reports import Pace, ProgressReport

_OWN_SECONDS = "step_seconds"
"""The metric by which a program reports how many seconds of a step are its own work: in synchronous training all steps
take as long as the slowest replica's."""

_WINDOW, _MIN_SPAN, _MIN_GAP = 40.0, 30.0, 4.0
"""Seconds of reports that count, before which no pace is known, and between two of them: some report every step."""

_PAUSE = 3.0
"""After an interval so many times as long as the interval before, a pace begins anew: earlier steps are not compared
with steps of other replicas meanwhile, perhaps on a machine that is busier now."""

_MIN_INTERVALS = 6
"""Before there are so many, no pace is known. So many are kept where steps are longer than the window."""

_SLOW, _SLOW_NO_MORE, _SPREADS = 1.6, 1.25, 4.0
"""The ratio to the median from which a replica is slow, and the ratio below which it is slow no more. A slow replica is
also further from the median than so many median distances: types with mixed machines vary."""


def advanced(before: Pace | None, report: ProgressReport, at: float) -> Pace | None:
    """Return the pace after a report that came `at`, in monotonic seconds; None before the first report of a step.

    Another pod, or a step that is lower than the last step, begins a new pace.
    """
    step = report.step
    if step is None:
        return before
    if before is None or before.pod != report.pod or step < before.step:
        return Pace(report.pod, step, at)
    took, steps, kept = at - before.at, step - before.step, before.intervals
    if not steps or took < _MIN_GAP:
        return before
    if len(kept) > 1 and took > _PAUSE * (kept[-1][0] - kept[-2][0]):
        return Pace(report.pod, step, at)
    for own in (one.value for one in report.metrics if one.name == _OWN_SECONDS):
        took = _seconds(own) * steps or took
    while len(kept) >= _MIN_INTERVALS and kept[0][0] < at - _WINDOW:
        kept = kept[1:]
    return Pace(report.pod, step, at, (*kept, (at, took, steps)))


def seconds_per_step(pace: Pace | None, now: float) -> float | None:
    """Return the seconds per step, without the longest pause; None if too little is known, or if it is silent."""
    if pace is None or len(pace.intervals) < _MIN_INTERVALS or pace.at - pace.intervals[0][0] < _MIN_SPAN:
        return None
    if now - pace.at > 2 * (pace.at - pace.intervals[-2][0]):
        return None
    _, longest, steps = max(pace.intervals, key=lambda one: one[1] / one[2])
    return sum([one[1] for one in pace.intervals], -longest) / sum([one[2] for one in pace.intervals], -steps)


def slow_replicas(reports: Mapping[str, ProgressReport], before: Collection[str]) -> dict[str, float | None]:
    """Return the factor by which each replica (by name) is slower than the median of its type, None if it isn't slow.

    Replicas of unknown pace, or alone in their type, are left out. `before` are the replicas that have been slow until
    now.
    """
    by_type: dict[str, dict[str, float]] = {}
    now = max((one.pace.at for one in reports.values() if one.pace is not None), default=0.0)
    for name, report in reports.items():
        if seconds := seconds_per_step(report.pace, now):
            by_type.setdefault(name.rpartition("-")[0], {})[name] = seconds
    found: dict[str, float | None] = {}
    for known in by_type.values():
        # Of two values in the middle the lower: if there are two replicas, the slower is compared with the faster.
        median = median_low(known.values())
        spread = median_low(abs(one - median) for one in known.values())
        for name, seconds in known.items() if len(known) > 1 else ():
            limit = _SLOW_NO_MORE * median if name in before else max(_SLOW * median, median + _SPREADS * spread)
            found[name] = seconds / median if seconds >= limit else None
    return found


def _seconds(text: str) -> float:
    try:
        return found if 1e-6 < (found := float(text)) < 1e6 else 0.0
    except ValueError:
        return 0.0
