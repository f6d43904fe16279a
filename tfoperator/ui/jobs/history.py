"""Data that an API server does not keep: deleted pods, earlier runs, a job's phases, and earlier values of metrics.

The phases of a job are the periods in which it waited, started, trained, stalled and so on.

The page's server records this data from the time at which the first page is opened. For the control plane on this
machine, the recording begins at the start of the server. The amount of data is limited.
"""

from __future__ import annotations

import threading
from datetime import datetime

import msgspec
from cachetools import FIFOCache, LRUCache

from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.status import JobUsage
from tfoperator.report.curves import Curves, Point
from tfoperator.ui.jobs.objects import SeenPod
from tfoperator.ui.jobs.phases import SeenPhases, follow
from tfoperator.ui.jobs.timeline import PodRecord, observe

MAX_JOBS = 5000
"""The server keeps the histories of at most this many jobs. If there are more jobs, the server drops the history that
was neither read nor changed for the longest time.
"""
MAX_PODS = 2000
"""The history of a job contains the records of at most this many pods, including the current pods. The record of a
further pod replaces the oldest record.
"""
MAX_RUNS = 50
"""The history contains at most this many runs of each pod: the latest runs."""


class _Memory:
    def __init__(self) -> None:
        self.pods: FIFOCache[str, PodRecord] = FIFOCache(MAX_PODS)  # by uid
        self.curves = Curves()
        self.phases: SeenPhases | None = None


class History:
    """The histories of all jobs. The key of a history is the UID of its job. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _jobs and its values
        self._jobs: LRUCache[str, _Memory] = LRUCache(MAX_JOBS)

    def saw_pod(self, job_uid: str, pod: SeenPod, replica: str, now: datetime) -> None:
        """Record the current run of the pod's container and the run before it. Both runs are in the pod's status."""
        with self._lock:
            pods = self._of(job_uid).pods
            record = observe(pod, replica, pods.get(pod.metadata.uid), now)
            pods[record.uid] = _bounded(record)

    def lost_pod(self, job_uid: str, pod_uid: str, now: datetime) -> None:
        """Record that the pod was deleted."""
        with self._lock:
            pods = self._of(job_uid).pods
            record = pods.get(pod_uid)
            if record is not None:
                pods[pod_uid] = msgspec.structs.replace(record, gone=now)

    def saw_progress(self, job_uid: str, progress: TrainingProgress, now: datetime) -> None:
        """Add the metrics in `status.progress` to the job's curves."""
        with self._lock:
            self._of(job_uid).curves.add(progress, now)

    def saw_usage(self, job_uid: str, usage: JobUsage) -> None:
        """Record the phases of the job (such as starting, training, stalled) since the last call."""
        with self._lock:
            memory = self._of(job_uid)
            memory.phases = follow(memory.phases, usage)

    def know_curves(self, job_uid: str, curves: Curves) -> None:
        """Set the curves of a job that has ended, from a recorded run."""
        with self._lock:
            self._of(job_uid).curves = curves

    def pods(self, job_uid: str) -> dict[str, PodRecord]:
        """Return the records of a job's pods, by UID."""
        with self._lock:
            memory = self._jobs.get(job_uid)
            return dict(memory.pods) if memory is not None else {}

    def metrics(self, job_uid: str) -> dict[str, list[Point]]:
        """Return the curves of a job's metrics, by the name of the metric."""
        with self._lock:
            memory = self._jobs.get(job_uid)
            return memory.curves.points() if memory is not None else {}

    def phases(self, job_uid: str) -> SeenPhases | None:
        """Return the recorded phases of a job, or None if nothing was recorded."""
        with self._lock:
            memory = self._jobs.get(job_uid)
            return memory.phases if memory is not None else None

    def _of(self, job_uid: str) -> _Memory:
        return self._jobs.setdefault(job_uid, _Memory())


def _bounded(record: PodRecord) -> PodRecord:
    if len(record.runs) <= MAX_RUNS:
        return record
    return msgspec.structs.replace(record, runs=record.runs[-MAX_RUNS:])
