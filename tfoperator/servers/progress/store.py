"""The newest report of every replica, by job, for as long as the job exists."""

from __future__ import annotations

import threading

from tfoperator.api.v1.types import TFJob, TrainingProgress
from tfoperator.servers.progress.merging import merged, overlaid
from tfoperator.servers.progress.reports import Report


class ReportStore:
    """Thread-safe. Of a replica one report is kept, so a store is as large as the jobs that report, and no larger."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _reports
        self._reports: dict[str, dict[str, Report]] = {}  # by the job's UID, by replica

    def add(self, uid: str, report: Report) -> None:
        """Keep a report of a replica of this job, over its last one."""
        with self._lock:
            reports = self._reports.setdefault(uid, {})
            reports[report.replica] = overlaid(reports.get(report.replica), report)

    def progress_of(self, job: TFJob) -> TrainingProgress | None:
        """What the status of this job should say by now; what it says if there is nothing newer."""
        with self._lock:
            reports = dict(self._reports.get(job.metadata.uid, ()))
        return merged(job, reports)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        with self._lock:
            self._reports.pop(uid, None)

    def __len__(self) -> int:
        """How many jobs have reported."""
        with self._lock:
            return len(self._reports)
