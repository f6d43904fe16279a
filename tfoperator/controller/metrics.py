"""Prometheus metrics of jobs, their objects and their syncs.

The Go operator's counters of jobs and pods keep their names and labels, so its dashboards keep working; ours begin with
`tfoperator_`.
"""

from __future__ import annotations

from collections.abc import Set

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


class ControllerMetrics:
    """Counts of jobs, of their objects and syncs, and times of jobs; shown if there is a registry. Thread-safe."""

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
        """Note that a sync will be repeated; `reason` is an error's class name (bounded in number)."""
        self._sync_failures.labels(reason).inc()
