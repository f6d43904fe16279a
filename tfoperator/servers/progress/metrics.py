"""Prometheus metrics of the progress server and of the reports of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.base.metrics import Makers

MAX_JOBS = 1000
"""The maximum number of jobs with time series of their own: the first jobs that have reported. The limit keeps the size
of `/metrics` and the number of time series in Prometheus small enough.
"""

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_LABELS = ("job_namespace", "job_name")


class ProgressMetrics(Collector):
    """Counts reports, refusals and writes of the progress server, and shows the progress of each job. Thread-safe.

    Without a registry, the metrics are not exposed. The label `reason` of a refusal is a word from a small set, and
    the label `reason` of a failed write is the name of the error's class.

    Only the leader of the operator's replicas exposes the progress of jobs. All replicas have the same data, so the
    other replicas would only duplicate the time series.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, is_leader: Callable[[], bool] = lambda: False
    ) -> None:
        make = Makers(registry)
        self.received = make.counter("tfoperator_progress_reports", "Reports of training programs that were accepted.")
        self.refused = make.counter("tfoperator_progress_refusals", "Requests that were refused.", ("reason",))
        self._writes = make.counter(
            "tfoperator_progress_writes", "Writes of TFJobs' statuses only because of reports of training programs."
        )
        self.failures = make.counter(
            "tfoperator_progress_write_failures",
            "Failed writes of TFJobs' statuses only because of reports of training programs.",
            ("reason",),
        )
        self._delay = make.histogram(
            "tfoperator_progress_write_delay_seconds",
            "Time from a report to the write of its status.",
            buckets=_BUCKETS,
        )
        self.pending = make.gauge("tfoperator_progress_pending_jobs", "Jobs whose last report is not written yet.")
        self.expiry = make.gauge(
            "tfoperator_progress_certificate_expiry_timestamp_seconds", "Time at which the certificate in use expires."
        )
        self._is_leader = is_leader
        self._jobs: dict[tuple[str, str], TrainingProgress] = {}
        if registry is not None:
            registry.register(self)

    def written(self, seconds: float) -> None:
        """Count a write of a status. `seconds` is the age of the oldest report that no earlier write contained."""
        self._writes.inc()
        self._delay.observe(seconds)

    def progressed(self, namespace: str, name: str, progress: TrainingProgress) -> None:
        """Set the progress that the time series of a job show. Call it for jobs that have not ended."""
        self._jobs[namespace, name] = progress

    def ended(self, namespace: str, name: str) -> None:
        """Remove the time series of a job that has ended or no longer exists."""
        self._jobs.pop((namespace, name), None)

    def collect(self) -> Iterator[Metric]:
        """Yield the time series with the progress of jobs, for at most MAX_JOBS jobs."""
        ratio = GaugeMetricFamily(
            "tfoperator_job_progress_ratio", "Share of the training that is done.", labels=_LABELS
        )
        step = GaugeMetricFamily("tfoperator_job_step", "Current step of the training.", labels=_LABELS)
        left = GaugeMetricFamily(
            "tfoperator_job_remaining_seconds", "Seconds until the end, as the program estimates.", labels=_LABELS
        )
        reported = GaugeMetricFamily(
            "tfoperator_job_last_report_timestamp_seconds", "Time of the program's last report.", labels=_LABELS
        )
        slow = GaugeMetricFamily(
            "tfoperator_job_slow_replicas", "Number of replicas with slow steps, if any.", labels=_LABELS
        )
        jobs = self._jobs.copy() if self._is_leader() else {}  # an atomic copy: other threads change `_jobs`
        for labels, progress in islice(jobs.items(), MAX_JOBS):
            if progress.percentage is not None:
                ratio.add_metric(labels, progress.percentage / 100)
            if progress.step is not None:
                step.add_metric(labels, progress.step)
            if progress.estimated_remaining_seconds is not None:
                left.add_metric(labels, progress.estimated_remaining_seconds)
            if progress.last_updated_time is not None:
                reported.add_metric(labels, progress.last_updated_time.timestamp())
            if progress.slow:
                slow.add_metric(labels, len(progress.slow))
        yield from (ratio, step, left, reported, slow)

    def describe(self) -> list[Metric]:
        """Return an empty list. Without this method, `registry.register` would call `collect`."""
        return []
