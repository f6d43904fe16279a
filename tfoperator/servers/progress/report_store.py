"""The reports of programs that one replica of the operator has received.

Only the newest report of each replica of a job is kept.
"""

from __future__ import annotations

import threading

import msgspec

from tfoperator.api.v1.status import TrainingProgress
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock
from tfoperator.servers.progress.merging import merged, overlaid
from tfoperator.servers.progress.paces import advanced
from tfoperator.servers.progress.reports import ProgressReport, reports_without_a_number


class ReportStore:
    """The newest report of each replica, by job. It is kept as long as the job exists. Thread-safe.

    Only one report for each replica is kept. So the number of jobs that report limits the size.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards _reports
        self._reports: dict[str, dict[str, ProgressReport]] = {}  # by the job's UID, by replica

    def add(self, uid: str, report: ProgressReport) -> bool:
        """Merge a report of a replica of this job into the replica's last report.

        If the report was made from a pod's output and the replica's program itself sends reports, the method ignores it
        and returns False.
        """
        with self._lock:
            reports = self._reports.setdefault(uid, {})
            before = reports.get(report.replica)
            if report.observed and before is not None and not before.observed:
                return False
            pace = advanced(None if before is None else before.pace, report, self._clock.monotonic())
            spoilt = reports_without_a_number(before, report)
            kept = msgspec.structs.replace(
                overlaid(before, report), pace=pace, observed=report.observed, loss_not_a_number=spoilt
            )
            reports[report.replica] = kept
            return True

    def progress_of(self, job: TFJob) -> TrainingProgress | None:
        """Return the progress that the status of this job should have now.

        It is the current progress, or progress from newer reports.
        """
        with self._lock:
            reports = dict(self._reports.get(job.metadata.uid, ()))
        return merged(job, reports)

    def forget(self, uid: str) -> None:
        """Remove the reports of a deleted job."""
        with self._lock:
            self._reports.pop(uid, None)
