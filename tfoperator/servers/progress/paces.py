"""Finds the slow replicas of a job from their reports. Pure. The memory for each replica is limited.

A pace is a number of seconds per step. It is computed from the newest reports of a replica, without the interval
between two reports that has the most seconds per step. This interval may contain an evaluation or a checkpoint. Each
pace is compared with the median pace of the replica type. `hack/straggler_alarms.py` measures the effect of the numbers
in this file: the normal variation of real training loops must not mark a replica as slow, but a real slowdown must.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import median_low

from tfoperator.servers.progress.reports import Pace, ProgressReport

_OWN_SECONDS = "step_seconds"
"""The name of a metric in reports: the seconds of a step in which the replica itself worked, without waiting for other
replicas. In synchronous training, all replicas wait for the slowest replica. So the whole time of a step is the same
for all of them, and does not show which replica is slow.
"""

_WINDOW, _MIN_SPAN, _MIN_GAP = 40.0, 30.0, 4.0
"""Three durations in seconds. Only intervals of the last `_WINDOW` seconds count. A pace is known only if its intervals
cover `_MIN_SPAN`. A report within `_MIN_GAP` after the last report is skipped: some programs report every step.
"""

_PAUSE = 3.0
"""If an interval is longer than the interval before it by this factor, the replica has paused, and its pace begins
anew. Otherwise its steps before the pause would be compared with steps of other replicas after the pause, when the load
of the machines may be different.
"""

_MIN_INTERVALS = 6
"""The minimum number of intervals for a pace. The last six intervals are kept even if they are older than `_WINDOW`."""

_SLOW, _SLOW_NO_MORE, _SPREADS = 1.6, 1.25, 4.0
"""A replica becomes slow if its pace is at least `_SLOW` times the median pace, and also differs from the median by at
least `_SPREADS` times the median difference of all replicas (on different machines, paces normally differ). A slow
replica is no longer slow if its pace is below `_SLOW_NO_MORE` times the median.
"""


def advanced(before: Pace | None, report: ProgressReport, at: float) -> Pace | None:
    """Return the data for a replica's pace after a report, which was received at the time `at` (monotonic seconds).

    `before` are the data before the report. If the replica has reported no step yet, return None. New data begin if
    the report comes from another pod than the last report, if its step is lower than the last step, or after a pause
    (`_PAUSE`).
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
    for own in (metric.value for metric in report.metrics if metric.name == _OWN_SECONDS):
        took = _seconds(own) * steps or took
    while len(kept) >= _MIN_INTERVALS and kept[0][0] < at - _WINDOW:
        kept = kept[1:]
    return Pace(report.pod, step, at, (*kept, (at, took, steps)))


def seconds_per_step(pace: Pace | None, now: float) -> float | None:
    """Return the seconds per step, without the interval between two reports that has the most seconds per step.

    Return None if there are too few intervals, if the intervals cover too short a time, or if the replica no longer
    sends reports.
    """
    if pace is None or len(pace.intervals) < _MIN_INTERVALS or pace.at - pace.intervals[0][0] < _MIN_SPAN:
        return None
    if now - pace.at > 2 * (pace.at - pace.intervals[-2][0]):
        return None
    _, longest, steps = max(pace.intervals, key=lambda interval: interval[1] / interval[2])
    return sum([interval[1] for interval in pace.intervals], -longest) / sum(
        [interval[2] for interval in pace.intervals], -steps
    )


def slow_replicas(reports: Mapping[str, ProgressReport], before: Collection[str]) -> dict[str, float | None]:
    """Return, by the name of the replica, the factor by which it is slower than the median of its type.

    The factor is None if the replica isn't slow. A replica is left out if its pace is unknown, or if it is the only
    replica of its type with a known pace. `before` are the replicas that were slow until now: such a
    replica stays slow until its factor is below `_SLOW_NO_MORE`.
    """
    by_type: dict[str, dict[str, float]] = {}
    now = max((report.pace.at for report in reports.values() if report.pace is not None), default=0.0)
    for name, report in reports.items():
        if seconds := seconds_per_step(report.pace, now):
            by_type.setdefault(name.rpartition("-")[0], {})[name] = seconds
    factors: dict[str, float | None] = {}
    for seconds_by_name in by_type.values():
        # `median_low` returns the lower of two middle values. So of two replicas, the slower is compared to the faster.
        median = median_low(seconds_by_name.values())
        spread = median_low(abs(seconds - median) for seconds in seconds_by_name.values())
        for name, seconds in seconds_by_name.items() if len(seconds_by_name) > 1 else ():
            limit = _SLOW_NO_MORE * median if name in before else max(_SLOW * median, median + _SPREADS * spread)
            factors[name] = seconds / median if seconds >= limit else None
    return factors


def _seconds(text: str) -> float:
    try:
        return seconds if 1e-6 < (seconds := float(text)) < 1e6 else 0.0
    except ValueError:
        return 0.0
