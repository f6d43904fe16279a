"""The states of jobs in Kueue's queues. They are read every 5 s while pages are open and a job is in a queue.

If the user may not read Kueue's objects, the page shows the error in the job's line. If no job is in a queue, no
request is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock, Repetition, SystemClock
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.sdk import JobQueue, job_queues

PERIOD = 5.0
"""Seconds between two reads."""


class Queues(Repetition):
    """The queue states of jobs, by the job's UID. Thread-safe.

    `start()` may be called several times; then call `stop()`.
    """

    def __init__(
        self,
        client: ApiClient,
        jobs: Callable[[], Iterable[TFJob]],
        tell: Callable[[str], object],
        *,
        clock: Clock | None = None,
    ) -> None:
        """`tell` is called from the thread that reads, with the key of each job whose state has changed."""
        self._client = client
        self._jobs = jobs
        self._notify = tell
        super().__init__(self._look, seconds=PERIOD, clock=clock or SystemClock(), name="ui-queues")
        self._queues: dict[str, JobQueue] = {}  # by UID; replaced as a whole, so `get` needs no lock

    def get(self, uid: str) -> JobQueue | None:
        """Return a job's queue state. Return None if the job is in no queue, or if its state was not read yet."""
        return self._queues.get(uid)

    def _look(self) -> None:
        jobs = {job.metadata.uid: job for job in self._jobs()}
        queues = job_queues(self._client, jobs.values())
        before, self._queues = self._queues, queues
        for uid, job in jobs.items():
            if before.get(uid) != queues.get(uid):
                self._notify(job.metadata.key)
