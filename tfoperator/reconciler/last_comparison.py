"""The time of a job's last comparison, perhaps by another process, according to the job's status. Pure.

`status.lastReconcileTime` records when the job was last compared, and the status's other times show when it last
changed. The quiet time before that comparison determines its backoff; a further field is not needed. Looks at a quiet
job come 15, 45, 105, 225 ... s after its last change: each is followed by an interval as long as that time and 15 s.

Changes without a recorded time (an edit of the spec, a count) are forgotten: the next look then comes later than it
would have come in the process before, never later than the longest interval. That is harmless, because a process begins
with a list of everything: up to then its caches have missed nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.status import all_conditions
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import seconds_between, utc

_CLOCK_DIFFERENCE = 300.0
"""Seconds by which another machine's clock may be ahead."""


class LastComparison(NamedTuple):
    """A comparison `ago` seconds ago, before which the job had not changed for `quiet` seconds."""

    ago: float
    quiet: float


def last_comparison(job: TFJob, now: datetime) -> LastComparison | None:
    """Return the last comparison of a job; None if its backoff starts again.

    Its backoff starts again if the job was not compared yet, or if its record is in the future by more than clocks
    differ. The comparisons of a finished job are not recorded any more: it counts as compared now.
    """
    ago = 0.0 if final_condition(job) is not None else record_age(job, now)
    if ago is None:
        return None
    changed = _last_change(job)
    return LastComparison(ago, 0.0 if changed is None else (now - changed).total_seconds() - ago)


def record_age(job: TFJob, now: datetime) -> float | None:
    """Return the seconds since the comparison that the job's status records; None if there is none that can be true."""
    last = job.status.last_reconcile_time
    ago = None if last is None else seconds_between(last, now)
    return None if ago is None or ago < -_CLOCK_DIFFERENCE else max(ago, 0.0)


def has_changed(old: TFJob, new: TFJob) -> bool:
    """Return whether the jobs differ in more than our own record, the progress of the training, and its usage.

    Reports of progress come every few seconds, and are no sign that a cache has missed something.
    """
    if old.metadata.generation != new.metadata.generation or old.spec != new.spec:
        return True
    before = old.status
    return before != msgspec.structs.replace(
        new.status, last_reconcile_time=before.last_reconcile_time, progress=before.progress, usage=before.usage
    )


def _last_change(job: TFJob) -> datetime | None:
    status = job.status
    times = [job.metadata.creation_timestamp, status.start_time, status.completion_time]
    for condition in all_conditions(status):
        times += [condition.last_update_time, condition.last_transition_time]
    # API servers accept only times with a zone; older stored times may have none.
    return max((utc(time) for time in times if time is not None), default=None)
