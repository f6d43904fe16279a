"""Computes the time of a job's last comparison with the live state, from the job's status.

Another process may have made the comparison. The module does no I/O. `status.lastReconcileTime` records when the job
was last compared. The other times in the status (for example of its conditions) show when the job last changed.
The interval until the next comparison is the time without a change before the last comparison, plus 15 s. So the status
needs no other field. A quiet job is compared 15, 45, 105, 225 ... s after its last change.

The status has no time for some changes, such as an edit of the spec or a new number of active pods. After a change of
the leader, such a change is not known any more. Then the next comparison comes later than in the earlier process, but
never later than the longest interval. This does no harm, because the caches of a new process begin with a list of all
objects.
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
"""Seconds by which the clock of another machine may be ahead. A later time in the status is ignored."""


class LastComparison(NamedTuple):
    """A job was compared `ago` seconds ago. At that time, it had not changed for `quiet` seconds."""

    ago: float
    quiet: float


def last_comparison(job: TFJob, now: datetime) -> LastComparison | None:
    """Return the last comparison of a job from its status. Return None if the job's interval must start again at 15 s.

    The interval starts again if the job was not compared yet, or if the recorded time of its last comparison is more
    than 5 minutes in the future. The comparisons of a finished job are not recorded any more, so it counts as compared
    now.
    """
    ago = 0.0 if final_condition(job) is not None else record_age(job, now)
    if ago is None:
        return None
    changed = _last_change(job)
    return LastComparison(ago, 0.0 if changed is None else (now - changed).total_seconds() - ago)


def record_age(job: TFJob, now: datetime) -> float | None:
    """Return the seconds since the comparison that the job's status records.

    Return None if there is no record, or if its time is more than 5 minutes in the future.
    """
    last = job.status.last_reconcile_time
    ago = None if last is None else seconds_between(last, now)
    return None if ago is None or ago < -_CLOCK_DIFFERENCE else max(ago, 0.0)


def has_changed(old: TFJob, new: TFJob) -> bool:
    """Return whether a job has changed between these two versions, except in its lastReconcileTime, progress and usage.

    Programs report their progress every few seconds. Changes of these three fields must not make the comparisons of
    the job more frequent.
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
