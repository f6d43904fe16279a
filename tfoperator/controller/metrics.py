"""Prometheus metrics of jobs, their objects and their syncs.

The counters of jobs and pods have the same names and labels as in the Go operator. Metrics of syncs also exist under
the names of controller-runtime, so that dashboards for other controllers work. The names of all other metrics begin
with `tfoperator_`.
"""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum

from prometheus_client import CollectorRegistry

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.base.metrics import Makers
from tfoperator.controller.kinds import OwnedKind

_FRAMEWORK = "tensorflow"
_BUCKETS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)
_LONG_BUCKETS = (10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600)
_BY_CONDITION = (
    (ConditionType.CREATED, "created"),
    (ConditionType.SUCCEEDED, "successful"),
    (ConditionType.FAILED, "failed"),
    (ConditionType.RESTARTING, "restarted"),
)


CONTROLLER_NAME = "tfjobs"
"""The value of the labels `controller` and `name` of the metrics of syncs and their queue."""

_SYNC_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""The upper bounds of histograms in seconds; controller-runtime has 35 bounds, and these are some of them."""


class SyncResult(StrEnum):
    """The result of a sync, with the words of controller-runtime."""

    SUCCESS = "success"
    ERROR = "error"
    REQUEUE = "requeue"
    REQUEUE_AFTER = "requeue_after"


class SyncMetrics:
    """The `controller_runtime_` metrics of syncs; they are published only if there is a registry. Thread-safe.

    Each result has a sample from the start, so that the first increase of a counter is visible.
    """

    def __init__(self, registry: CollectorRegistry | None) -> None:
        make, label = Makers(registry), ("controller",)
        results = make.counter("controller_runtime_reconcile", "Syncs, by their result.", ("controller", "result"))
        self._results = {result: results.labels(CONTROLLER_NAME, result.value) for result in SyncResult}
        errors = make.counter("controller_runtime_reconcile_errors", "Syncs that failed.", label)
        self._errors = errors.labels(CONTROLLER_NAME)
        seconds = make.histogram(
            "controller_runtime_reconcile_time_seconds", "Duration of a sync in seconds.", label, buckets=_SYNC_BUCKETS
        )
        self._seconds = seconds.labels(CONTROLLER_NAME)
        active = make.gauge("controller_runtime_active_workers", "Syncs that are running.", label)
        self._active = active.labels(CONTROLLER_NAME)
        limit = make.gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Largest number of syncs that can run at the same time.",
            label,
        )
        self._limit = limit.labels(CONTROLLER_NAME)

    def workers(self, count: int) -> None:
        """Note how many syncs can run at a time."""
        self._limit.set(count)

    def began(self) -> None:
        """Note that a sync begins."""
        self._active.inc()

    def ended(self, result: SyncResult, seconds: float) -> None:
        """Note that a sync has ended after `seconds`."""
        self._active.dec()
        self._seconds.observe(seconds)
        self._results[result].inc()
        if result is SyncResult.ERROR:
            self._errors.inc()


class ControllerMetrics:
    """Counts of jobs and of their objects, and durations of jobs; they are published only if there is a registry.

    Thread-safe. `syncs` has the metrics of syncs.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        make = Makers(registry)
        labels = ("job_namespace", "framework")
        self._jobs = {
            what: make.counter(f"training_operator_jobs_{what}", f"Jobs {what}.", labels)
            for what in ("created", "deleted", "successful", "failed", "restarted")
        }
        self._pods = {
            what: make.counter(f"training_operator_{what}_pods", f"Pods {what}.") for what in ("created", "deleted")
        }
        self._failed_pods = make.counter("training_operator_failed_pods", "Pods that the operator could not create.")
        self._services = {
            what: make.counter(f"training_operator_{what}_service_creation", f"Services: {what}.")
            for what in ("succeeded", "failed")
        }
        self._pod_groups = {
            what: make.counter(f"training_operator_{what}_pod_groups", f"PodGroups {what}.")
            for what in ("created", "deleted")
        }
        self._started = make.histogram(
            "tfoperator_job_start_seconds", "Time from a job's creation until it is Running.", buckets=_BUCKETS
        )
        self._finished = make.histogram(
            "tfoperator_job_completion_seconds",
            "Time from a job's creation until its end.",
            ("result",),
            buckets=_LONG_BUCKETS,
        )
        self.syncs = SyncMetrics(registry)
        self._sync_failures = make.counter(
            "tfoperator_sync_failures", "Syncs that have to be repeated, by error.", ("reason",)
        )

    def job_transitions(self, namespace: str, transitions: Set[ConditionType]) -> None:
        """Note that these conditions of a job became True and that the status with them was written."""
        for condition, what in _BY_CONDITION:
            if condition in transitions:
                self._jobs[what].labels(namespace, _FRAMEWORK).inc()

    def job_deleted(self, namespace: str) -> None:
        """Note that a job was deleted, by any client."""
        self._jobs["deleted"].labels(namespace, _FRAMEWORK).inc()

    def job_started(self, seconds: float) -> None:
        """Note that a job runs for the first time, `seconds` after its creation."""
        self._started.observe(seconds)

    def job_finished(self, seconds: float, *, succeeded: bool) -> None:
        """Note that a job ended, `seconds` after its creation."""
        self._finished.labels("succeeded" if succeeded else "failed").observe(seconds)

    def objects_created(self, kind: OwnedKind, count: int, failed: int) -> None:
        """Note that a sync created `count` objects, and that `failed` creations were refused or got no answer."""
        if kind == "pods":
            self._pods["created"].inc(count)
            self._failed_pods.inc(failed)
        elif kind == "podgroups":
            self._pod_groups["created"].inc(count)
        else:
            self._services["succeeded"].inc(count)
            self._services["failed"].inc(failed)

    def objects_deleted(self, kind: OwnedKind, count: int) -> None:
        """Note that a sync deleted `count` objects."""
        if kind == "pods":
            self._pods["deleted"].inc(count)
        elif kind == "podgroups":
            self._pod_groups["deleted"].inc(count)

    def sync_failed(self, reason: str) -> None:
        """Record that a sync will be repeated.

        `reason` is the class name of an error (there are only a few different names).
        """
        self._sync_failures.labels(reason).inc()
