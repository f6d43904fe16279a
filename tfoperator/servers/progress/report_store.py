"""The reports of training programs that this replica of the operator has received.

Only the newest report of each replica of a job is kept.
"""

from __future__ import annotations

import threading

import msgspec

from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock
from tfoperator.servers.progress.merging import merged, overlaid
from tfoperator.servers.progress.paces import advanced
from tfoperator.servers.progress.reports import ProgressReport, reports_without_a_number


class ReportStore:
    """The newest report of each training replica (`worker-3`), by job. Thread-safe.

    A caller must call `forget` after the deletion of a job. So the number of existing replicas limits the size.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards _reports
        self._reports: dict[str, dict[str, ProgressReport]] = {}  # by the job's UID, by replica

    def add(self, uid: str, report: ProgressReport) -> bool:
        """Merge a report of a replica into the replica's last report. `uid` is the UID of the job.

        A report that the operator has made from the pod's log is ignored if the replica's program itself sends reports.
        Return False if the report was ignored.
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
        """Return the value that `status.progress` of this job should have now.

        This is the current value, or a value from newer reports, or None if the job has no progress yet.
        """
        with self._lock:
            reports = dict(self._reports.get(job.metadata.uid, ()))
        return merged(job, reports)

    def forget(self, uid: str) -> None:
        """Remove the reports of a deleted job."""
        with self._lock:
            self._reports.pop(uid, None)
