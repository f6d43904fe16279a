"""Decides which job may write to Kueue's objects while Kueue does not answer.

Kueue checks each write to a Workload by a webhook. While it restarts, the API server refuses these writes, perhaps
after a timeout of ten seconds each. With many jobs that would occupy all worker threads. So an outage begins when the
writes of two different jobs fail in a row. During an outage a single job at a time writes, which shows whether Kueue
answers again, and all others wait in the order of their creation. The first success ends the outage: the jobs that
wait are synced at once, in their order, so that those which ask for quota come in the order in which people submitted
them.

A job whose writes alone fail, for a reason of its own, begins no outage. It can't prolong an outage either: every other
attempt is made by another job than the oldest. If its writes fail again after an outage, it comes back ever later.
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
"""Seconds between two attempts in an outage: the pause doubles with each attempt."""

_LONGEST_ABSENCE = 300.0
"""Seconds after which a job comes back at the latest whose writes have failed after several outages."""

_FAILURES_SHOWN = 3
"""Failures in a row of a job's writes, after which people see it."""

_OVERDUE = 10.0
"""Seconds after which any job takes the turn of a job that has not made its attempt."""


def is_outage(error: KubeError) -> bool:
    """Return whether the error may mean that Kueue, or the API server, does not answer at all."""
    return isinstance(error, ServerError | TooManyRequestsError | TransportError)


class _Place(NamedTuple):
    """The place of a job among those that wait: the oldest first."""

    created: str
    key: str


class Outage:
    """Thread-safe. `enqueue_after` gets the key of a job to sync, and after how many seconds."""

    def __init__(self, clock: Clock, enqueue_after: Callable[[str, float], None]) -> None:
        self._clock = clock
        self._enqueue_after = enqueue_after
        self._lock = threading.Lock()  # guards the fields below
        self._failed: dict[
            str, int
        ] = {}  # by key: how often a job's writes have failed since the last success of any job
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
        """Return whether a job shows that it waits for Kueue: not after a failure that may be over in a moment."""
        return self.is_on or self._failed.get(job.metadata.key, 0) >= _FAILURES_SHOWN

    def may_write(self, job: TFJob) -> bool:
        """Return whether a job may write to its Workload now; otherwise it waits, and is synced when it may."""
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
        # Another reason for a sync may have come before the attempt was due: the queue keeps the earliest time only.
        self._enqueue_after(key, left)
        return False

    def failed(self, job: TFJob, error: KubeError) -> None:
        """Note that a job's write has failed in a way that `is_outage`: it, or another job, tries again in a while."""
        key, now = job.metadata.key, self._clock.monotonic()
        with self._lock:
            self._failed[key] = self._failed.get(key, 0) + 1
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
                turn, pause = key, _pause(self._failed[key])
        if begins:
            logger.warning(
                "Kueue does not answer (%s): jobs that are admitted continue, and the operator tries again and again",
                error,
            )
        self._enqueue_after(turn, pause)

    def answered(self, job: TFJob) -> None:
        """Note that a job's write was carried out, or was refused for a reason of its own: Kueue answers."""
        if not self._failed and not self._outages:
            return
        with self._lock:
            over = bool(self._turn)
            self._failed.pop(job.metadata.key, None)
            self._outages.pop(job.metadata.key, None)
            for key in self._failed if over else ():
                self._outages[key] = self._outages.get(key, 0) + 1
            waits = {place.key: self._absence(place.key) for place in sorted(self._waiting.values())}
            self._failed.clear()
            self._waiting.clear()
            self._turn = ""
        if over:
            logger.info("Kueue answers again: the operator syncs the %d jobs that waited for it", len(waits))
            for key, seconds in waits.items():
                self._enqueue_after(key, seconds)

    def _absence(self, key: str) -> float:
        """Return after how many seconds a job that waits is looked at once Kueue answers. Call it with the lock."""
        outages = self._outages.get(key, 0)
        return 0.0 if outages < 2 else min(_LONGEST_PAUSE * 2 ** (outages - 2), _LONGEST_ABSENCE)

    def leave(self, key: str) -> None:
        """Note that a job has nothing to write, or is gone: another job makes the attempt that was its own."""
        if not self._waiting and not self._outages:
            return
        with self._lock:
            self._waiting.pop(key, None)
            self._failed.pop(key, None)
            self._outages.pop(key, None)
            if self._turn != key:
                return
            self._turn = turn = self._next_turn() if self._waiting else ""
            pause = max(self._due - self._clock.monotonic(), 0.0)
        if turn:
            self._enqueue_after(turn, pause)

    def _next_turn(self) -> str:
        """Return the key of the job that makes the next attempt: the oldest, and every other time the next in turn.

        Call it with the lock.
        """
        places = sorted(self._waiting.values())
        index = (self._attempts // 2) % len(places) if self._attempts % 2 == 0 else 0
        return places[index].key


def _pause(attempts: int) -> float:
    """Return the seconds after so many attempts until the next."""
    return float(min(_FIRST_PAUSE * 2.0 ** min(attempts - 1, 30), _LONGEST_PAUSE))


def _place(job: TFJob) -> _Place:
    created: datetime | None = job.metadata.creation_timestamp
    return _Place("" if created is None else created.isoformat(), job.metadata.key)
