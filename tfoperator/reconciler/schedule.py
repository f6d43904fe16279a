"""When each job is to be compared with the live state: a backoff per job, as a pure state machine over a clock reading.

A job that was just created, changed or repaired is looked at after 15 s, then after 30 s, 60 s ... up to every 5
minutes (the intervals of the design document). At the longest interval all jobs fall due at the same moments, the
multiples of it: since one live list serves every job that is due, a thousand idle jobs then cost as little as one.
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
        """Both in seconds. Raises ValueError unless 0 < base <= cap."""
        if not 0 < base <= cap:
            raise ValueError(f"need 0 < base <= cap, got base={base} and cap={cap}")
        self._base = base
        self._cap = cap
        self._jobs: dict[str, _Job] = {}

    def track(self, uid: str, now: float) -> None:
        """Begin with a job; no-op for one that is known."""
        if uid not in self._jobs:
            self._jobs[uid] = _Job(self._base, now + self._base)

    def begin(self, uid: str, now: float, last: LastComparison | None, *, within: float | None = None) -> None:
        """Begin again with a job, where another process stood that has compared it; see `resume`."""
        if last is None:
            self.forget(uid)
            self.track(uid, now)
        else:
            self.resume(uid, now, ago=last.ago, quiet=last.quiet, within=within)

    def resume(self, uid: str, now: float, *, ago: float, quiet: float, within: float | None = None) -> None:
        """Go on where another process stood, which compared the job `ago` seconds ago when it was quiet for `quiet`.

        Whatever these are, the job is due after `within` seconds at most (by default the cap), and not before the
        shortest interval is over.
        """
        interval = min(max(quiet, 0.0) + self._base, self._cap)
        if interval >= self._cap and ago < longest_unrecorded(quiet, self._cap) + self._cap:
            ago %= self._cap  # it was compared since, at that interval, without a record
        latest = self._cap if within is None else within
        self._jobs[uid] = _Job(interval, now + min(max(interval - ago, self._base), latest))

    def reset(self, uid: str, now: float) -> None:
        """The job was changed: begin again with the shortest interval. One that is due, or soon will be, stays so."""
        job = self._jobs.get(uid)
        if job is not None:
            job.interval = self._base
            job.due = min(job.due, now + self._base)

    def again(self, uid: str, now: float) -> None:
        """The job was compared and not all was well: look again after the shortest interval."""
        job = self._jobs.get(uid)
        if job is not None:
            job.interval = self._base
            job.due = now + self._base

    def checked(self, uid: str, now: float) -> None:
        """The job was compared and all was well: wait twice as long before the next time, at most the cap."""
        job = self._jobs.get(uid)
        if job is None:
            return
        job.interval = min(job.interval * 2, self._cap)
        if job.interval < self._cap:
            job.due = now + job.interval
        else:
            job.due = (now // self._cap + 1) * self._cap

    def due(self, now: float, slack: float = 0.0) -> list[str]:
        """The jobs that are due, or will be within `slack` seconds; none unless one is due now."""
        if not any(job.due <= now for job in self._jobs.values()):
            return []
        return [uid for uid, job in self._jobs.items() if job.due <= now + slack]

    def due_at(self, uid: str) -> float | None:
        """When this job is due; None if it is not tracked."""
        job = self._jobs.get(uid)
        return None if job is None else job.due

    def is_due(self, uid: str, now: float) -> bool:
        """Whether this job is due."""
        job = self._jobs.get(uid)
        return job is not None and job.due <= now

    def is_slowest(self, uid: str) -> bool:
        """Whether this job is at the longest interval."""
        job = self._jobs.get(uid)
        return job is not None and job.interval >= self._cap

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._jobs.pop(uid, None)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget every job but these."""
        known = set(uids)
        for uid in [uid for uid in self._jobs if uid not in known]:
            del self._jobs[uid]

    def __len__(self) -> int:
        """How many jobs are tracked."""
        return len(self._jobs)
