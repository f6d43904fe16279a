"""Everything that `/metrics` shows, in one registry per operator (several may live in one process, as in tests).

The Go operator's counters of jobs and pods keep their names and labels, so its dashboards go on working; ours begin
with `tfoperator_`.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

import tfoperator
from tfoperator.api.v1.types import ConditionType
from tfoperator.controller.children import ChildKind
from tfoperator.operator.tool_metrics import ClientMetrics, InformerMetrics, QueueMetrics

__all__ = ["CONTENT_TYPE", "ArchiveMetrics", "JobMetrics", "OperatorMetrics", "ReconcilerMetrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_FRAMEWORK = "tensorflow"
_SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)
_LONG_SECONDS = (10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600)


class JobMetrics:
    """A `tfoperator.controller.ControllerMetrics`."""

    _BY_CONDITION = (
        (ConditionType.CREATED, "created"),
        (ConditionType.SUCCEEDED, "successful"),
        (ConditionType.FAILED, "failed"),
        (ConditionType.RESTARTING, "restarted"),
    )

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("job_namespace", "framework")
        self._jobs = {
            what: Counter(f"training_operator_jobs_{what}", f"Jobs {what}.", labels, registry=registry)
            for what in ("created", "deleted", "successful", "failed", "restarted")
        }
        self._pods = {
            what: Counter(f"training_operator_{what}_pods", f"Pods {what}.", registry=registry)
            for what in ("created", "deleted")
        }
        self._failed_pods = Counter(
            "training_operator_failed_pods", "Pods that could not be created.", registry=registry
        )
        self._services = {
            what: Counter(f"training_operator_{what}_service_creation", f"Services: {what}.", registry=registry)
            for what in ("succeeded", "failed")
        }
        self._pod_groups = {
            what: Counter(f"training_operator_{what}_pod_groups", f"PodGroups {what}.", registry=registry)
            for what in ("created", "deleted")
        }
        self._started = Histogram(
            "tfoperator_job_start_seconds", "From a job's creation to Running.", buckets=_SECONDS, registry=registry
        )
        self._finished = Histogram(
            "tfoperator_job_completion_seconds",
            "From a job's creation to its end.",
            ("result",),
            buckets=_LONG_SECONDS,
            registry=registry,
        )
        self._sync_failures = Counter(
            "tfoperator_sync_failures", "Syncs to be repeated, by error.", ("reason",), registry=registry
        )

    def job_transitions(self, namespace: str, transitions: Set[ConditionType]) -> None:
        """See `ControllerMetrics`."""
        for condition, what in self._BY_CONDITION:
            if condition in transitions:
                self._jobs[what].labels(namespace, _FRAMEWORK).inc()

    def job_deleted(self, namespace: str) -> None:
        """See `ControllerMetrics`."""
        self._jobs["deleted"].labels(namespace, _FRAMEWORK).inc()

    def job_started(self, seconds: float) -> None:
        """See `ControllerMetrics`."""
        self._started.observe(seconds)

    def job_finished(self, seconds: float, *, succeeded: bool) -> None:
        """See `ControllerMetrics`."""
        self._finished.labels("succeeded" if succeeded else "failed").observe(seconds)

    def children_created(self, kind: ChildKind, count: int, failed: int) -> None:
        """See `ControllerMetrics`."""
        if kind == "pods":
            self._pods["created"].inc(count)
            self._failed_pods.inc(failed)
        elif kind == "podgroups":
            self._pod_groups["created"].inc(count)
        else:
            self._services["succeeded"].inc(count)
            self._services["failed"].inc(failed)

    def children_deleted(self, kind: ChildKind, count: int) -> None:
        """See `ControllerMetrics`."""
        if kind == "pods":
            self._pods["deleted"].inc(count)
        elif kind == "podgroups":
            self._pod_groups["deleted"].inc(count)

    def sync_failed(self, reason: str) -> None:
        """See `ControllerMetrics`."""
        self._sync_failures.labels(reason).inc()


class ReconcilerMetrics:
    """A `tfoperator.reconciler.ReconcilerMetrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "tfoperator_reconcile_duration_seconds", "Seconds of one comparison round.", registry=registry
        )
        self._jobs = Counter("tfoperator_reconciled_jobs", "Jobs compared with the live state.", registry=registry)
        self._failures = Counter("tfoperator_reconcile_failures", "Rounds that failed.", registry=registry)
        self._repairs = Counter(
            "tfoperator_reconcile_repairs", "Objects whose changes the watch had missed.", ("resource",),
            registry=registry,
        )  # fmt: skip

    def looked(self, seconds: float, jobs: int) -> None:
        """See `ReconcilerMetrics`."""
        self._seconds.observe(seconds)
        self._jobs.inc(jobs)

    def look_failed(self) -> None:
        """See `ReconcilerMetrics`."""
        self._failures.inc()

    def repaired(self, resource: str, objects: int) -> None:
        """See `ReconcilerMetrics`."""
        self._repairs.labels(resource).inc(objects)


class ArchiveMetrics:
    """A `tfoperator.archive.ArchiveMetrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pods = Counter("tfoperator_archived_pods", "Pods whose logs were kept.", registry=registry)
        self._bytes = Counter("tfoperator_archived_bytes", "Bytes of logs that were kept.", registry=registry)
        self._failures = Counter("tfoperator_archive_failures", "Pods of which a log was lost.", registry=registry)

    def archived(self, size: int) -> None:
        """See `ArchiveMetrics`."""
        self._pods.inc()
        self._bytes.inc(size)

    def archive_failed(self) -> None:
        """See `ArchiveMetrics`."""
        self._failures.inc()


class OperatorMetrics:
    """All metrics of one operator. Thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.queues = QueueMetrics(self.registry)
        self.client = ClientMetrics(self.registry)
        self.informers = InformerMetrics(self.registry)
        self.jobs = JobMetrics(self.registry)
        self.reconciler = ReconcilerMetrics(self.registry)
        self.archive = ArchiveMetrics(self.registry)
        build = Gauge(
            "tfoperator_build_info", "Always 1; the version is the label.", ("version",), registry=self.registry
        )
        build.labels(tfoperator.__version__).set(1)
        self._leader = Gauge("tfoperator_leader", "1 while this process leads, else 0.", registry=self.registry)

    def watch_leadership(self, read: Callable[[], bool]) -> None:
        """Ask `read` at each scrape whether this process leads."""
        self._leader.set_function(lambda: 1.0 if read() else 0.0)

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)
