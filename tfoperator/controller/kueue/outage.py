"""Decides which job may write to Kueue's objects while Kueue does not answer.

Kueue checks each write to a Workload by a webhook. While Kueue restarts, the API server refuses these writes, in some
cases only after a timeout of ten seconds each. With many jobs, these writes would occupy all worker threads. So when
the writes of two different jobs fail one after the other, an outage begins. During an outage only a single job at a
time writes, to find out whether Kueue responds again. All other jobs wait, in the order of their creation. The first
success ends the outage. Then the jobs that wait are synced at once, in their order. So jobs that request quota do this
in the order in which people submitted them.

If only the writes of one job fail, for a reason of that job, there is no outage. Such a job can't prolong an outage
either, because all jobs that wait take turns in every second attempt. If the job's writes fail again after an outage,
the operator waits longer and longer before it syncs the job again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock
from tfoperator.kube.protocol.errors import KubeError, ServerError, TooManyRequestsError, TransportError

logger = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
"""The first and the longest pause between two attempts in an outage, in seconds; the pause doubles with
each attempt.
"""

_LONGEST_ABSENCE = 300.0
"""If a job's writes have failed in several outages, the job is synced again after at most this number of seconds."""

_FAILURES_SHOWN = 3
"""After this number of failed writes in a row, the job's condition shows the problem."""

_OVERDUE = 10.0
"""If the job whose turn it is has not made its attempt after this number of seconds, any job may make it."""


def is_outage(error: KubeError) -> bool:
    """Return whether the error may mean that Kueue, or the API server, does not answer at all."""
    return isinstance(error, ServerError | TooManyRequestsError | TransportError)


class _Place(NamedTuple):
    """A job that waits; the jobs are ordered by age, the oldest first."""

    created: str
    key: str


class Outage:
    """Counts failed writes to Kueue's objects, and decides which job may write. Thread-safe.

    It calls `enqueue_after` with the key of a job, and the number of seconds after which the job must be synced.
    """

    def __init__(self, clock: Clock, enqueue_after: Callable[[str, float], None]) -> None:
        self._clock = clock
        self._enqueue_after = enqueue_after
        self._lock = threading.Lock()  # guards the fields below
        self._failed: set[str] = set()  # the keys of jobs whose writes have failed since the last success of any job
        # By key: how often a job's writes have failed since its own last success, or since the end of an outage.
        self._failures: dict[str, int] = {}
        self._outages: dict[str, int] = {}  # by key: how many outages the job has failed in, since its own last success
        self._waiting: dict[str, _Place] = {}
        self._turn = ""  # the key of the job that makes the next attempt; "" if there is no outage
        self._due = 0.0  # the time of the next attempt
        self._attempts = 0

    @property
    def is_on(self) -> bool:
        """Whether there is an outage."""
        return bool(self._turn)

    def is_shown(self, job: TFJob) -> bool:
        """Return whether the job's condition shows that it waits for Kueue.

        The condition shows it during an outage, and otherwise only after three failed writes of the job, because a
        single failure may be over a moment later.
        """
        return self.is_on or self._failures.get(job.metadata.key, 0) >= _FAILURES_SHOWN

    def may_write(self, job: TFJob) -> bool:
        """Return whether a job may write to its Workload now.

        If not, the job is synced again as soon as it may write.
        """
        key, now = job.metadata.key, self._clock.monotonic()
        with self._lock:
            if not self._turn:
                return True
            self._waiting[key] = _place(job)
            if now >= self._due + _OVERDUE:
                self._turn = key
            left = self._due - now if key == self._turn else None
        if left is None or left <= 0:
            return left is not None
        # This sync may have come before the attempt was due, for example because a pod changed. So queue the job
        # again for the due time.
        self._enqueue_after(key, left)
        return False

    def failed(self, job: TFJob, error: KubeError) -> None:
        """Record a failed write of a job (an `is_outage` error). This job or another job tries again after a pause."""
        key, now = job.metadata.key, self._clock.monotonic()
        with self._lock:
            self._failed.add(key)
            self._failures[key] = self._failures.get(key, 0) + 1
            self._waiting[key] = _place(job)
            begins = not self._turn and len(self._failed) > 1
            if begins:
                self._attempts = 0
            elif self._turn and key != self._turn:
                return
            if begins or self._turn:
                self._attempts += 1
                pause = _pause(self._attempts)
                self._due = now + pause
                self._turn = turn = self._next_turn()
            else:
                turn, pause = key, _pause(self._failures[key])
        if begins:
            logger.warning(
                "Kueue does not answer (%s): jobs that are admitted continue, and the operator tries again and again",
                error,
            )
        self._enqueue_after(turn, pause)

    def answered(self, job: TFJob) -> None:
        """Record that Kueue responds: a job's write was executed, or was refused for a reason of the job.

        If there was an outage, it ends, and the jobs that wait are queued.
        """
        if not self._turn and not self._failures and not self._outages:
            return
        with self._lock:
            over = bool(self._turn)
            self._failed.discard(job.metadata.key)
            self._failures.pop(job.metadata.key, None)
            self._outages.pop(job.metadata.key, None)
            if over:
                for key in self._failed:
                    self._outages[key] = self._outages.get(key, 0) + 1
                self._failures.clear()
            waits = {place.key: self._absence(place.key) for place in sorted(self._waiting.values())}
            self._failed.clear()
            self._waiting.clear()
            self._turn = ""
        if over:
            logger.info("Kueue answers again: the operator syncs the %d jobs that waited for it", len(waits))
            for key, seconds in waits.items():
                self._enqueue_after(key, seconds)

    def _absence(self, key: str) -> float:
        """Return how many seconds after the end of an outage the job `key`, which waits, is synced.

        The result is 0, unless the job has gone through two or more outages: such a job waits longer and longer.
        The caller must hold the lock.
        """
        outages = self._outages.get(key, 0)
        return 0.0 if outages < 2 else min(_LONGEST_PAUSE * 2 ** (outages - 2), _LONGEST_ABSENCE)

    def leave(self, key: str) -> None:
        """Record that a job has nothing to write, or is gone.

        If it was the job's turn, another job makes the attempt.
        """
        if not self._waiting and not self._failures and not self._outages:
            return
        with self._lock:
            self._waiting.pop(key, None)
            self._failed.discard(key)
            self._failures.pop(key, None)
            self._outages.pop(key, None)
            if self._turn != key:
                return
            self._turn = turn = self._next_turn() if self._waiting else ""
            pause = max(self._due - self._clock.monotonic(), 0.0)
        if turn:
            self._enqueue_after(turn, pause)

    def _next_turn(self) -> str:
        """Return the key of the job that makes the next attempt.

        In every second attempt, it is the oldest job that waits. In the other attempts, the jobs take turns. The caller
        must hold the lock.
        """
        places = sorted(self._waiting.values())
        index = (self._attempts // 2) % len(places) if self._attempts % 2 == 0 else 0
        return places[index].key


def _pause(attempts: int) -> float:
    """Return the number of seconds until the next attempt. `attempts` is the number of attempts so far."""
    return float(min(_FIRST_PAUSE * 2.0 ** min(attempts - 1, 30), _LONGEST_PAUSE))


def _place(job: TFJob) -> _Place:
    created: datetime | None = job.metadata.creation_timestamp
    return _Place("" if created is None else created.isoformat(), job.metadata.key)
