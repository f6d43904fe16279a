"""Writes the reports of training programs to `status.progress` of their jobs, at a limited rate.

A job's status is written at most once a second. There is also a limit on the writes for all jobs together. If more
reports arrive, the jobs wait in a queue. When a job's turn comes, only its newest reports are written. With 50 writes a
second, each of a thousand jobs has a turn every 20 s. When the controller writes the status of a job for another
reason, it includes the reports, and this module skips its own write.

A write also includes `status.usage`, if this process has a newer value.

A write names the resourceVersion of the job on which it is based, as the controller's own writes do. So it can't revert
a write of another replica of the operator, and it can't change a new job with the same name.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec

from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.status import JobUsage, TFJobStatus
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.base.clock import Clock, StopSignal
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.informers import Lister
from tfoperator.kube.http.sending.requests import status_write
from tfoperator.kube.protocol.errors import ConflictError, KubeError, NotFoundError
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.kube.views.objects import decode_nothing
from tfoperator.servers.progress.metrics import ProgressMetrics
from tfoperator.workqueue import QueueMetrics, RateLimitingQueue, Workers

logger = logging.getLogger(__name__)

_PERIOD = 1.0
"""The minimum seconds between two writes for a job."""

_BURST = 5
_WRITER_THREADS = 2
_RETRY_BASE, _RETRY_CAP = 0.2, 30.0
"""The delay before the first retry, and the maximum delay, in seconds. After a conflict, the watch usually delivers the
newer version of the job within 0.2 s.
"""


class ProgressWriter:
    """Writes the progress of jobs in threads of its own. Call `start()` and `stop()` once each. Thread-safe."""

    def __init__(
        self,
        client: ApiClient,
        jobs: Lister[TFJob],
        progress_of: Callable[[TFJob], TrainingProgress | None],
        usage_of: Callable[[TFJob], JobUsage | None],
        *,
        writes_per_second: float,
        clock: Clock,
        metrics: ProgressMetrics,
        queue_metrics: QueueMetrics | None = None,
    ) -> None:
        """`progress_of` returns the value that `status.progress` of a job should have now.

        `usage_of` returns a value that is newer than `status.usage`, or None.
        """
        self._client = client
        self._jobs = jobs
        self._progress_of = progress_of
        self._usage_of = usage_of
        self._clock = clock
        self._metrics = metrics
        self._bucket = TokenBucket(writes_per_second, _BURST, clock=clock)
        self._queue: RateLimitingQueue[str] = RateLimitingQueue(
            base=_RETRY_BASE, cap=_RETRY_CAP, name="progress", clock=clock, metrics=queue_metrics
        )
        self._workers = Workers(self._queue, self._process, _WRITER_THREADS, thread_name="progress-writer")
        self._stop = StopSignal()
        self._lock = threading.Lock()  # guards the next two fields
        self._waiting_since: dict[str, float] = {}  # by job: the arrival of its oldest report that is not written yet
        self._written_at: dict[str, float] = {}  # by job: the time of its last write
        metrics.pending.set_function(lambda: len(self._waiting_since))

    def start(self) -> None:
        """Start the threads that write."""
        self._workers.start()

    def stop(self) -> None:
        """Write the reports that are not written yet, for up to 2 s, and end the threads. Idempotent.

        If a write hangs, the call does not wait for it. The write ends when the client is closed.
        """
        for key in tuple(self._waiting_since):
            self._queue.add(key)
        deadline = self._clock.monotonic() + 2.0
        while self._waiting_since and self._clock.monotonic() < deadline:
            if self._stop.wait(self._clock, 0.02):
                break
        self._stop.set()
        self._workers.stop(1.0)

    def changed(self, key: str) -> None:
        """Schedule a write for a job (`namespace/name`) for which a report was received."""
        now = self._clock.monotonic()
        with self._lock:
            self._waiting_since.setdefault(key, now)
            due = self._written_at.get(key, float("-inf")) + _PERIOD
        self._queue.add_after(key, max(0.0, due - now), is_retry=False)

    def forget(self, key: str) -> None:
        """Drop a deleted job (`namespace/name`) from the queue."""
        with self._lock:
            self._waiting_since.pop(key, None)
            self._written_at.pop(key, None)
        self._queue.forget(key)

    def _process(self, key: str) -> None:
        try:
            self._write(key)
        except ConflictError:
            self._again(key, "ConflictError")
        except NotFoundError:
            self.forget(key)
        except KubeError as error:
            logger.warning("the progress can't be written: %s", error, extra={"job": key})
            self._again(key, type(error).__name__)
        except Exception:
            logger.exception("writing the progress failed unexpectedly", extra={"job": key})
            self._again(key, "Exception")

    def _again(self, key: str, reason: str) -> None:
        self._metrics.failures.labels(reason).inc()
        self._queue.add_rate_limited(key)

    def _write(self, key: str) -> None:
        if self._status_of(self._jobs.find(key)) is None:
            self._settled(key)
            return
        if self._stop.wait(self._clock, self._bucket.reserve()):
            return
        # Compute the status again, because more reports may have arrived during the wait.
        job = self._jobs.find(key)
        status = self._status_of(job)
        if job is None or status is None:
            self._settled(key)
            return
        with self._lock:
            since = self._waiting_since.pop(key, None)
        try:
            self._client.make(status_write(TFJOBS, job.metadata, status), decode_nothing)
        except KubeError:
            with self._lock:
                if since is not None:
                    self._waiting_since.setdefault(key, since)
            raise
        now = self._clock.monotonic()
        with self._lock:
            self._written_at[key] = now
        if self._jobs.find(key) is None:
            # The job was deleted during the write. `forget` may have run before this point, and does not run again.
            self.forget(key)
        self._queue.forget(key)
        self._metrics.written(0.0 if since is None else now - since)

    def _settled(self, key: str) -> None:
        """Remove a job from the queue without a write: its status already has all reports, or the job is gone."""
        with self._lock:
            self._waiting_since.pop(key, None)
        self._queue.forget(key)

    def _status_of(self, job: TFJob | None) -> TFJobStatus | None:
        """Return the status to write, or None if the job doesn't exist or its `status.progress` is up to date."""
        if job is None:
            return None
        progress = self._progress_of(job)
        if progress is None or progress == job.status.progress:
            return None
        usage = self._usage_of(job) or job.status.usage
        return msgspec.structs.replace(job.status, progress=progress, usage=usage)
