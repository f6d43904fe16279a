"""Deletes the pods and services of replicas: all at once, each expected before the call, with its UID as precondition.

Unlike creations they need no slow start: quotas and most admission webhooks, which refuse all alike, have no say here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from tfoperator.api.v1.types import TFJob
from tfoperator.controller.actions import Plan, PodDelete, ServiceDelete
from tfoperator.controller.children import RESOURCES, ChildKind, expectation_key
from tfoperator.controller.claim import Claimer
from tfoperator.controller.job_events import JobEvents
from tfoperator.controller.lost_answers import deleted_all_the_same
from tfoperator.controller.messages import deletion_events
from tfoperator.controller.metrics import ControllerMetrics
from tfoperator.controller.outcome import Outcome
from tfoperator.controller.slow_start import CallPool
from tfoperator.expectations import ExpectationKey, Expectations
from tfoperator.kube.errors import KubeError
from tfoperator.kube.verbs import ApiClient

__all__ = ["DeletionExecutor"]

logger = logging.getLogger(__name__)

_Delete = PodDelete | ServiceDelete


class DeletionExecutor:
    """Executes the deletions of plans. Thread-safe, for different jobs at a time."""

    def __init__(
        self,
        client: ApiClient,
        *,
        claimer: Claimer,
        pool: CallPool,
        expectations: Expectations,
        events: JobEvents,
        metrics: ControllerMetrics,
    ) -> None:
        self._client = client
        self._claimer = claimer
        self._pool = pool
        self._expectations = expectations
        self._events = events
        self._metrics = metrics

    def execute(self, job: TFJob, plan: Plan, outcome: Outcome) -> None:
        """Delete what the plan says, each whatever became of the others, and put down in `outcome` what failed."""
        self._expect(job, "pods", plan.delete_pods)
        self._expect(job, "services", plan.delete_services)
        calls = [partial(self._delete, job, "pods", pod, pod.grace_period_seconds) for pod in plan.delete_pods]
        calls += [partial(self._delete, job, "services", service, None) for service in plan.delete_services]
        results = self._pool.all(calls)
        failures = [error for error in results if error is not None]
        pods = [one.name for one, error in zip(plan.delete_pods, results, strict=False) if error is None]
        after = results[len(plan.delete_pods) :]
        services = [one.name for one, error in zip(plan.delete_services, after, strict=True) if error is None]
        self._metrics.children_deleted("pods", len(pods))
        self._metrics.children_deleted("services", len(services))
        self._events.emit(job, deletion_events(pods, services))
        if failures:
            reason = "FailedDeletePod" if len(pods) < len(plan.delete_pods) else "FailedDeleteService"
            self._events.failed(job, reason, "Error deleting", failures)
            outcome.errors += failures

    def _expect(self, job: TFJob, kind: ChildKind, deletes: Iterable[_Delete]) -> None:
        uids: dict[ExpectationKey, list[str]] = {}
        for one in deletes:
            uids.setdefault(expectation_key(job.metadata.uid, one.replica_type, kind), []).append(one.uid)
        for key, pending in uids.items():
            self._expectations.expect_deletions(key, pending)

    def _delete(self, job: TFJob, kind: ChildKind, one: _Delete, grace: int | None) -> KubeError | None:
        resource, namespace = RESOURCES[kind], job.metadata.namespace
        try:
            self._client.delete(resource, namespace, one.name, uid=one.uid, grace_period_seconds=grace)
        except KubeError as error:
            gone = deleted_all_the_same(self._client, resource, namespace, one.name, one.uid, error)
            # Of what is gone and still in the cache the watch will tell; of anything else nothing is to be expected.
            if not gone or not self._claimer.shows_alive(resource, namespace, one.name, one.uid):
                key = expectation_key(job.metadata.uid, one.replica_type, kind)
                self._expectations.deletion_observed(key, one.uid)
            return None if gone else error
        logger.info("deleted %s %s: %s", kind[:-1], one.name, one.reason, extra={"job": job.metadata.key})
        return None
