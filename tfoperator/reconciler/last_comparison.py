"""The time of a job's last comparison, perhaps by another process, according to the job's status. Pure.

`status.lastReconcileTime` says when the job was last compared, and the status's other times when it last changed. The
quiet time before that comparison determines its backoff, so no further field is needed: looks at a quiet job come 15,
45, 105, 225 ... s after its last change, each followed by an interval as long as that and 15 s.

A job that has been quiet for longer than the longest interval is compared more often than recorded
(`longest_unrecorded`), so after an older record the time of the next comparison within that interval is unknown.

Changes without a recorded time (an edit of the spec, a count) are forgotten: the next look then comes later than it
would have come in the process before, never later than the longest interval. That is harmless, because a process begins
with a list of everything: up to then its caches have missed nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from tfoperator.api.job_conditions import final_condition
from tfoperator.api.v1.types import TFJob

_MAX_CAPS = 12


class LastComparison(NamedTuple):
    """A comparison `ago` seconds ago, before which the job had not changed for `quiet` seconds."""

    ago: float
    quiet: float


def last_comparison(job: TFJob, now: datetime) -> LastComparison | None:
    """Return the last comparison of a job; None if its backoff starts again.

    Its backoff starts again if the job was not compared yet, or if its record is in the future by this process's clock.
    The comparisons of a finished job are not recorded any more: it counts as compared now.
    """
    last = now if final_condition(job) is not None else _aware(job.status.last_reconcile_time)
    if last is None or last > now:
        return None
    changed = _last_change(job)
    return LastComparison((now - last).total_seconds(), 0.0 if changed is None else (last - changed).total_seconds())


def longest_unrecorded(quiet: float, cap: float) -> float:
    """Return the seconds without a record after the record of a job that had been quiet for `quiet` seconds.

    They are `quiet` again, so that a job that stays quiet costs ever fewer writes; at least `cap`, at most twelve times
    `cap` (with the default: from 5 minutes to an hour).
    """
    return min(max(quiet, cap), _MAX_CAPS * cap)


def record_is_due(job: TFJob, now: datetime, cap: float) -> bool:
    """Return whether a comparison of this job now must be recorded if nothing else is written."""
    status = job.status
    last = _aware(status.last_reconcile_time)
    since = last or _aware(status.start_time or job.metadata.creation_timestamp)
    if since is None:
        return False
    ago = (now - since).total_seconds()
    if ago < 0:
        # A time in the future, from a wrong clock, would otherwise stay until another change is written.
        return -ago >= cap
    changed = _last_change(job)
    quiet = 0.0 if last is None or changed is None else (last - changed).total_seconds()
    return ago >= longest_unrecorded(quiet, cap)


def has_changed(old: TFJob, new: TFJob) -> bool:
    """Return whether the jobs differ in more than the record of our own comparison."""
    if old.metadata.generation != new.metadata.generation or old.spec != new.spec:
        return True
    return old.status != msgspec.structs.replace(new.status, last_reconcile_time=old.status.last_reconcile_time)


def _last_change(job: TFJob) -> datetime | None:
    status = job.status
    times = [job.metadata.creation_timestamp, status.start_time, status.completion_time]
    for condition in status.conditions:
        times += [condition.last_update_time, condition.last_transition_time]
    return max((time for time in map(_aware, times) if time is not None), default=None)


def _aware(time: datetime | None) -> datetime | None:
    """Return the time with its zone, as all times that API servers accept have one; older stored ones may not."""
    return time if time is None or time.tzinfo is not None else time.replace(tzinfo=UTC)
