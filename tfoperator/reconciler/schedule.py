"""Computes when to compare each job with the live state, and when to record the comparison. It is a pure state machine.

A job that was just created, changed or repaired is compared after 15 s. Later comparisons come after 30 s, 60 s ... up
to every 5 minutes, as the first design document requires. At each comparison, the next interval becomes the time since
the job's last change plus 15 s. The job's status contains these times, so another process can continue with the same
interval. A *look* is one reading of the live state of all jobs. All jobs at the longest interval are due at the same
look, so a single look serves all these jobs.

The time of a comparison is recorded in the job's `status.lastReconcileTime` in two cases: the job has no record yet, or
its record would be older than the longest interval at the next comparison. At most five records a second are written,
the oldest first. Jobs whose records have to wait are due again at the next look. In the longest interval (300 s), 1,500
records can be written. With more active jobs, all records become older to the same degree: 10,000 jobs are recorded
every 2,000 s.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tfoperator.reconciler.last_comparison import LastComparison

_RECORDS_PER_SECOND = 5.0
"""The maximum number of status writes per second, for all jobs together, that change only `lastReconcileTime`. Each
such write costs an API server about 3 ms of CPU.
"""


class _Job(msgspec.Struct):
    """The times of one job on the monotonic clock. `recorded` is the comparison time in its status.

    `recorded` is -inf if there is no record, and inf for a finished job, which needs no records.
    """

    changed: float  # the first change since `compared`, or else the last change before it
    compared: float  # -inf if never
    due: float
    recorded: float


class Round(NamedTuple):
    """The UIDs of the jobs to compare together, with one reading of the live state.

    `records` has the jobs whose comparison must be recorded in their status, with the seconds to wait before the write.
    """

    jobs: frozenset[str] = frozenset()
    records: Mapping[str, float] = {}


class Intervals(NamedTuple):
    """The shortest and the longest interval between two comparisons of a job, in seconds.

    `base` applies after a change, and `cap` when the job has been quiet for a long time.
    """

    base: float
    cap: float


class Schedule:
    """Computes when each job is due for a comparison. The key of a job is its UID.

    Not thread-safe. `now` and all other times are readings of a monotonic clock in seconds.
    """

    def __init__(self, intervals: Intervals) -> None:
        """Initialize; raises ValueError unless 0 < base <= cap."""
        base, cap = intervals
        if not 0 < base <= cap:
            raise ValueError(f"need 0 < base <= cap, got base={base} and cap={cap}")
        self._base = base
        self._cap = cap
        self._jobs: dict[str, _Job] = {}
        self._taken_at = -math.inf

    def track(self, uid: str, now: float, *, records: bool = True) -> None:
        """Add a job that was never compared. Do nothing if the schedule already contains the job.

        `records` is False if the job's comparisons are not recorded in its status, for example for a finished job.
        """
        if uid not in self._jobs:
            self._jobs[uid] = _Job(now, -math.inf, now + self._base, -math.inf if records else math.inf)

    def begin(
        self,
        uid: str,
        now: float,
        last: LastComparison | None,
        *,
        records: bool = True,
        within: float | None = None,
    ) -> None:
        """Add a job, or replace its times. `last` is its last comparison, which another process may have made.

        `last` is None if the job was never compared. The job is due after at least the shortest interval, and after at
        most `within` seconds (default: the longest interval). `records` is as in `track`.
        """
        self.forget(uid)
        self.track(uid, now, records=records)
        if last is None:
            return
        job = self._jobs[uid]
        job.compared = now - max(last.ago, 0.0)
        job.changed = job.compared - max(last.quiet, 0.0)
        job.due = min(max(job.compared + self._interval(job), now + self._base), now + (within or self._cap))
        if records:
            job.recorded = job.compared

    def changed(self, uid: str, now: float) -> None:
        """Record a change of the job: it is due after the shortest interval, unless it is due earlier."""
        job = self._jobs.get(uid)
        if job is not None:
            if job.changed <= job.compared:
                job.changed = now
            job.due = min(job.due, now + self._base)

    def recorded(self, uid: str, compared: float) -> None:
        """Note that the job's status contains, or will contain, `compared` as the time of its last comparison.

        If this comparison is later than the last comparison in the schedule, it becomes the job's last comparison: the
        job is then due one interval after it at the earliest. The call changes nothing if the job needs no records.
        """
        job = self._jobs.get(uid)
        if job is None or job.recorded == math.inf:
            return
        job.recorded = max(job.recorded, compared)
        if compared > job.compared:
            job.compared = compared
            job.due = max(job.due, compared + self._interval(job))

    def ended(self, uid: str) -> None:
        """Note that the job has finished, so its comparisons are not recorded any more."""
        job = self._jobs.get(uid)
        if job is not None:
            job.recorded = math.inf

    def compared(self, uid: str, now: float, *, matched: bool) -> None:
        """Note that the job was compared. `matched` is whether the caches had the live state.

        If they did not, the next comparison comes after the shortest interval. Otherwise, it comes after about twice
        the last interval.
        """
        job = self._jobs.get(uid)
        if job is not None:
            job.compared = now
            job.changed = job.changed if matched else now
            job.due = now + self._interval(job)

    def take(self, now: float, *, slack: float = 0.0) -> Round:
        """Return the jobs to compare now. Return an empty Round if neither a comparison nor a record is due.

        Jobs that will be due within `slack` seconds are included: if they were compared later, the live state would
        have to be read again. If a job at the longest interval is due, the Round also contains each job at this
        interval whose last comparison is at least half the interval ago. The writes of records are distributed over
        half the shortest interval.
        """
        due = {uid for uid, job in self._jobs.items() if job.due <= now + slack}
        late = {uid for uid, job in self._jobs.items() if self._record_due(job) <= now + slack}
        if not any(self.is_due(uid, now) for uid in due | late):
            return Round()
        if any(self._jobs[uid].due <= now and self.is_slowest(uid) for uid in due):
            since = now - self._cap / 2
            due |= {uid for uid, job in self._jobs.items() if job.compared <= since and self.is_slowest(uid)}
        late |= {uid for uid in due if self._is_record_too_old(self._jobs[uid], now)}
        limit = int(_RECORDS_PER_SECOND * min(now - self._taken_at, self._base))
        self._taken_at = now
        records = heapq.nsmallest(limit, late, key=lambda uid: (self._jobs[uid].recorded, uid))
        delays = {uid: self._base / 2 * place / limit for place, uid in enumerate(records)}
        return Round(frozenset(due.union(records)), delays)

    def due_at(self, uid: str) -> float | None:
        """Return the time at which this job must be compared. Return None if the schedule does not contain it."""
        job = self._jobs.get(uid)
        return None if job is None else job.due

    def is_due(self, uid: str, now: float) -> bool:
        """Return whether this job must be compared now, or its comparison must be recorded now."""
        job = self._jobs.get(uid)
        return job is not None and (job.due <= now or self._record_due(job) <= now)

    def is_slowest(self, uid: str) -> bool:
        """Return whether this job is at the longest interval."""
        job = self._jobs.get(uid)
        return job is not None and self._interval(job) >= self._cap

    def forget(self, uid: str) -> None:
        """Forget a job that no longer exists."""
        self._jobs.pop(uid, None)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget all jobs except these."""
        kept = set(uids)
        for uid in [uid for uid in self._jobs if uid not in kept]:
            del self._jobs[uid]

    def _interval(self, job: _Job, compared: float | None = None) -> float:
        """Return the seconds from a comparison to the next comparison.

        `compared` is the time of the comparison (default: the job's last comparison).
        """
        quiet = (job.compared if compared is None else compared) - job.changed
        return min(max(quiet, 0.0) + self._base, self._cap)

    def _is_record_too_old(self, job: _Job, now: float) -> bool:
        """Return whether, at the next comparison, the recorded time would be older than the longest interval."""
        return job.recorded + self._cap < now + self._interval(job, now)

    def _record_due(self, job: _Job) -> float:
        """Return the time at which the job must be compared, so that its record does not become too old.

        The new record is written up to half of the shortest interval after the comparison. So this time is by half of
        the shortest interval earlier than the time at which the old record becomes too old.
        """
        if job.recorded == job.compared == -math.inf:
            return job.due
        return job.recorded + self._cap - self._base / 2
