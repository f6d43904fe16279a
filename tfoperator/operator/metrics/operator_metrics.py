"""All metrics at `/metrics`, in one registry per operator (several may live in one process, as in tests).

The Go operator's counters of jobs and pods keep their names and labels, so its dashboards keep working; ours begin with
`tfoperator_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import tfoperator
from tfoperator import reconciler
from tfoperator.api.v1.types import ConditionType
from tfoperator.controller import ControllerMetrics, OwnedKind
from tfoperator.logs import archive
from tfoperator.operator.metrics.tool_metrics import ClientMetrics, Makers, PrometheusInformerMetrics, QueueMetrics
from tfoperator.operator.metrics.usage_metrics import Read, UsageMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_FRAMEWORK = "tensorflow"
_BUCKETS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)
_LONG_BUCKETS = (10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600)


class JobMetrics(ControllerMetrics):
    """A `tfoperator.controller.ControllerMetrics`."""

    _BY_CONDITION = (
        (ConditionType.CREATED, "created"),
        (ConditionType.SUCCEEDED, "successful"),
        (ConditionType.FAILED, "failed"),
        (ConditionType.RESTARTING, "restarted"),
    )

    def __init__(self, registry: CollectorRegistry) -> None:
        make = Makers(registry)
        labels = ("job_namespace", "framework")
        self._jobs = {
            what: make.counter(f"training_operator_jobs_{what}", f"Jobs {what}.", labels)
            for what in ("created", "deleted", "successful", "failed", "restarted")
        }
        self._pods = {
            what: make.counter(f"training_operator_{what}_pods", f"Pods {what}.") for what in ("created", "deleted")
        }
        self._failed_pods = make.counter("training_operator_failed_pods", "Pods that could not be created.")
        self._services = {
            what: make.counter(f"training_operator_{what}_service_creation", f"Services: {what}.")
            for what in ("succeeded", "failed")
        }
        self._pod_groups = {
            what: make.counter(f"training_operator_{what}_pod_groups", f"PodGroups {what}.")
            for what in ("created", "deleted")
        }
        self._started = make.histogram(
            "tfoperator_job_start_seconds", "From a job's creation to Running.", buckets=_BUCKETS
        )
        self._finished = make.histogram(
            "tfoperator_job_completion_seconds", "From a job's creation to its end.", ("result",), buckets=_LONG_BUCKETS
        )
        self._sync_failures = make.counter("tfoperator_sync_failures", "Syncs to be repeated, by error.", ("reason",))

    def job_transitions(self, namespace: str, transitions: Set[ConditionType]) -> None:
        for condition, what in self._BY_CONDITION:
            if condition in transitions:
                self._jobs[what].labels(namespace, _FRAMEWORK).inc()

    def job_deleted(self, namespace: str) -> None:
        self._jobs["deleted"].labels(namespace, _FRAMEWORK).inc()

    def job_started(self, seconds: float) -> None:
        self._started.observe(seconds)

    def job_finished(self, seconds: float, *, succeeded: bool) -> None:
        self._finished.labels("succeeded" if succeeded else "failed").observe(seconds)

    def objects_created(self, kind: OwnedKind, count: int, failed: int) -> None:
        if kind == "pods":
            self._pods["created"].inc(count)
            self._failed_pods.inc(failed)
        elif kind == "podgroups":
            self._pod_groups["created"].inc(count)
        else:
            self._services["succeeded"].inc(count)
            self._services["failed"].inc(failed)

    def objects_deleted(self, kind: OwnedKind, count: int) -> None:
        if kind == "pods":
            self._pods["deleted"].inc(count)
        elif kind == "podgroups":
            self._pod_groups["deleted"].inc(count)

    def sync_failed(self, reason: str) -> None:
        self._sync_failures.labels(reason).inc()


class PrometheusReconcilerMetrics(reconciler.ReconcilerMetrics):
    """A `tfoperator.reconciler.ReconcilerMetrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        make = Makers(registry)
        self._seconds = make.histogram("tfoperator_reconcile_duration_seconds", "Seconds of one comparison round.")
        self._jobs = make.counter("tfoperator_reconciled_jobs", "Jobs compared with the live state.")
        self._failures = make.counter("tfoperator_reconcile_failures", "Rounds that failed.")
        self._repairs = make.counter(
            "tfoperator_reconcile_repairs", "Objects whose changes the watch had missed.", ("resource",)
        )

    def looked(self, seconds: float, jobs: int) -> None:
        self._seconds.observe(seconds)
        self._jobs.inc(jobs)

    def look_failed(self) -> None:
        self._failures.inc()

    def repaired(self, resource: str, objects: int) -> None:
        self._repairs.labels(resource).inc(objects)


class PrometheusArchiveMetrics(archive.ArchiveMetrics):
    """The metrics of the log archive."""

    def __init__(self, registry: CollectorRegistry) -> None:
        make = Makers(registry)
        self._pods = make.counter("tfoperator_archived_pods", "Pods whose logs were kept.")
        self._bytes = make.counter("tfoperator_archived_bytes", "Bytes of logs that were kept.")
        self._failures = make.counter("tfoperator_archive_failures", "Pods of which a log was lost.")

    def archived(self, size: int, *, new: bool) -> None:
        self._pods.inc(int(new))
        self._bytes.inc(size)

    def archive_failed(self) -> None:
        self._failures.inc()


class _StalledJobs(Collector):
    """Counts, at each scrape, the jobs whose condition Stalled is true."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily(
            "tfoperator_stalled_jobs", "Jobs that make no progress, while this process leads.", labels=["job_namespace"]
        )
        for namespace, count in sorted(self._read().items()):
            gauge.add_metric([namespace], count)
        yield gauge


class OperatorMetrics:
    """All metrics of one operator. Thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.queues = QueueMetrics(self.registry)
        self.client = ClientMetrics(self.registry)
        self.informers = PrometheusInformerMetrics(self.registry)
        self.jobs = JobMetrics(self.registry)
        self.reconciler = PrometheusReconcilerMetrics(self.registry)
        self.archive = PrometheusArchiveMetrics(self.registry)
        build = Gauge(
            "tfoperator_build_info", "Always 1; the version is the label.", ("version",), registry=self.registry
        )
        build.labels(tfoperator.__version__).set(1)
        self._leader = Gauge("tfoperator_leader", "1 while this process leads, else 0.", registry=self.registry)
        self._election = Gauge(
            "leader_election_master_status",
            "1 while this process holds the lease, else 0.",
            ("name",),
            registry=self.registry,
        )

    def watch_leadership(self, read: Callable[[], bool], lease: str = "") -> None:
        """Call `read` at each scrape to learn whether this process leads; with a lease, say so as client-go does."""
        self._leader.set_function(lambda: 1.0 if read() else 0.0)
        if lease:
            self._election.labels(lease).set_function(lambda: 1.0 if read() else 0.0)

    def watch_stalls(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Call `read` at each scrape for the number of stalled jobs by namespace; zeros may be omitted."""
        self.registry.register(_StalledJobs(read))

    def watch_usage(self, read: Read, now: Callable[[], datetime]) -> None:
        """Call `read` at each scrape for the usage of jobs."""
        self.registry.register(UsageMetrics(read, now))

    def render(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)
