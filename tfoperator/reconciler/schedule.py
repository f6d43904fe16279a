"""The times at which to compare each job with the live state: a backoff per job, as a pure state machine.

A job that was just created, changed or repaired is compared after 15 s, then after 30 s, 60 s ... up to every 5 minutes
(the intervals of the design document). At the longest interval all jobs fall due at the same moments, the multiples of
it: since one live list serves every job that is due, a thousand idle jobs then cost as little as one.
"""

from __future__ import annotations

from collections.abc import Iterable

from tfoperator.reconciler.last_comparison import LastComparison, longest_unrecorded

BASE_INTERVAL = 15.0
"""Seconds until the first look at a job."""

MAX_INTERVAL = 300.0
"""Seconds between two looks at a job that has been quiet for long."""


class _Job:
    __slots__ = ("due", "interval")

    def __init__(self, interval: float, due: float) -> None:
        self.interval = interval
        self.due = due


class Schedule:
    """Due times by job UID. Not thread-safe; `now` is a monotonic clock's reading."""

    def __init__(self, *, base: float = BASE_INTERVAL, cap: float = MAX_INTERVAL) -> None:
        """Initialize; both in seconds. Raises ValueError unless 0 < base <= cap."""
        if not 0 < base <= cap:
            raise ValueError(f"need 0 < base <= cap, got base={base} and cap={cap}")
        self._base = base
        self._cap = cap
        self._jobs: dict[str, _Job] = {}

    def track(self, uid: str, now: float) -> None:
        """Start tracking a job; no-op for one that is tracked."""
        if uid not in self._jobs:
            self._jobs[uid] = _Job(self._base, now + self._base)

    def begin(self, uid: str, now: float, last: LastComparison | None, *, within: float | None = None) -> None:
        """Track a job again, from its last comparison by another process; see `resume`."""
        if last is None:
            self.forget(uid)
            self.track(uid, now)
        else:
            self.resume(uid, now, ago=last.ago, quiet=last.quiet, within=within)

    def resume(self, uid: str, now: float, *, ago: float, quiet: float, within: float | None = None) -> None:
        """Continue the schedule of another process: it compared the job `ago` seconds ago, after `quiet` seconds.

        With any values, the job is due after `within` seconds at most (by default the cap), and not before the shortest
        interval is over.
        """
        interval = min(max(quiet, 0.0) + self._base, self._cap)
        if interval >= self._cap and ago < longest_unrecorded(quiet, self._cap) + self._cap:
            ago %= self._cap  # it was compared since, at that interval, without a record
        latest = self._cap if within is None else within
        self._jobs[uid] = _Job(interval, now + min(max(interval - ago, self._base), latest))

    def reset(self, uid: str, now: float) -> None:
        """Restart a changed job with the shortest interval. One that is due, or soon will be, stays so."""
        job = self._jobs.get(uid)
        if job is not None:
            job.interval = self._base
            job.due = min(job.due, now + self._base)

    def again(self, uid: str, now: float) -> None:
        """Note that the job was compared and differed: look again after the shortest interval."""
        job = self._jobs.get(uid)
        if job is not None:
            job.interval = self._base
            job.due = now + self._base

    def checked(self, uid: str, now: float) -> None:
        """Note that the job was compared and matched: double the time before the next comparison, up to the cap."""
        job = self._jobs.get(uid)
        if job is None:
            return
        job.interval = min(job.interval * 2, self._cap)
        if job.interval < self._cap:
            job.due = now + job.interval
        else:
            job.due = (now // self._cap + 1) * self._cap

    def due(self, now: float, slack: float = 0.0) -> list[str]:
        """Return the jobs that are due, or will be within `slack` seconds; none unless one is due now."""
        if not any(job.due <= now for job in self._jobs.values()):
            return []
        return [uid for uid, job in self._jobs.items() if job.due <= now + slack]

    def due_at(self, uid: str) -> float | None:
        """Return when this job is due; None if it is not tracked."""
        job = self._jobs.get(uid)
        return None if job is None else job.due

    def is_due(self, uid: str, now: float) -> bool:
        """Return whether this job is due."""
        job = self._jobs.get(uid)
        return job is not None and job.due <= now

    def is_slowest(self, uid: str) -> bool:
        """Return whether this job is at the longest interval."""
        job = self._jobs.get(uid)
        return job is not None and job.interval >= self._cap

    def forget(self, uid: str) -> None:
        """Forget a job that is gone."""
        self._jobs.pop(uid, None)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget every job but these."""
        known = set(uids)
        for uid in [uid for uid in self._jobs if uid not in known]:
            del self._jobs[uid]

    def __len__(self) -> int:
        """Return the number of tracked jobs."""
        return len(self._jobs)
