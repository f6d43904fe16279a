"""The reports of programs that one replica of the operator has received: the newest of each replica of a job."""

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
    """The newest report of every replica, by job, for as long as the job exists. Thread-safe.

    One report per replica is kept, so the size is bounded by the reporting jobs.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards _reports
        self._reports: dict[str, dict[str, ProgressReport]] = {}  # by the job's UID, by replica

    def add(self, uid: str, report: ProgressReport) -> bool:
        """Merge a report of a replica of this job into its last report.

        Returns False, and ignores the report, if it is made from output and the replica's program reports itself.
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
        """Return the progress that the status of this job should have now: the present progress or newer reports."""
        with self._lock:
            reports = dict(self._reports.get(job.metadata.uid, ()))
        return merged(job, reports)

    def forget(self, uid: str) -> None:
        """Remove a deleted job."""
        with self._lock:
            self._reports.pop(uid, None)
