"""Reads the states of jobs in Kueue's queues every 5 s, from the time at which the first page is opened.

If no job is in a queue, the server sends no request. If the user has no right to read Kueue's objects, the page shows
the error as the state of the job in its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock, Repetition, SystemClock
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.sdk import JobQueue, job_queues

PERIOD = 5.0
"""The seconds between two reads of the states."""


class Queues(Repetition):
    """The states of jobs in their queues, by the job's UID. Thread-safe.

    `start()` may be called several times. At the end, call `stop()`.
    """

    def __init__(
        self,
        client: ApiClient,
        jobs: Callable[[], Iterable[TFJob]],
        tell: Callable[[str], object],
        *,
        clock: Clock | None = None,
    ) -> None:
        """After each read, the reading thread calls `tell` with the key of each job whose state has changed."""
        self._client = client
        self._jobs = jobs
        self._notify = tell
        super().__init__(self._look, seconds=PERIOD, clock=clock or SystemClock(), name="ui-queues")
        self._queues: dict[str, JobQueue] = {}  # by UID; replaced as a whole, so `get` needs no lock

    def get(self, uid: str) -> JobQueue | None:
        """Return a job's state in its queue. Return None if the job is in no queue, or its state was not read yet."""
        return self._queues.get(uid)

    def _look(self) -> None:
        jobs = {job.metadata.uid: job for job in self._jobs()}
        queues = job_queues(self._client, jobs.values())
        before, self._queues = self._queues, queues
        for uid, job in jobs.items():
            if before.get(uid) != queues.get(uid):
                self._notify(job.metadata.key)
