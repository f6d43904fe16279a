"""Carries out what a plan says about a job's PodGroup: few requests, with expectations like those of pods.

Pods are not made before their PodGroup is there: the gang scheduler could not tell how many belong together.
"""

from __future__ import annotations

import logging

from tfoperator.api.v1.types import TFJob
from tfoperator.controller.actions import Plan, PlannedEvent, PodGroupCreate, PodGroupDelete, PodGroupPatch
from tfoperator.controller.children import expectation_key
from tfoperator.controller.claim import Claimer
from tfoperator.controller.gang import GangScheduler
from tfoperator.controller.job_events import JobEvents
from tfoperator.controller.metrics import ControllerMetrics
from tfoperator.controller.name_taken import NameTaken, Occupant, Taken, found_instead
from tfoperator.controller.outcome import Outcome, refusal
from tfoperator.expectations import ExpectationKey, Expectations
from tfoperator.kube.errors import ConflictError, InvalidError, KubeError, NotFoundError
from tfoperator.kube.objects import decode_nothing
from tfoperator.kube.verbs import ApiClient

__all__ = ["PodGroupExecutor"]

logger = logging.getLogger(__name__)

_SCHEDULING = "spec.runPolicy.schedulingPolicy"


class PodGroupExecutor:
    """Creates, changes and deletes PodGroups of one gang scheduler. Thread-safe, for different jobs at a time."""

    def __init__(
        self,
        client: ApiClient,
        gang: GangScheduler,
        *,
        claimer: Claimer,
        expectations: Expectations,
        events: JobEvents,
        metrics: ControllerMetrics,
    ) -> None:
        self._client = client
        self._resource = gang.pod_groups
        self._claimer = claimer
        self._expectations = expectations
        self._events = events
        self._metrics = metrics

    def delete(self, job: TFJob, plan: Plan, outcome: Outcome) -> None:
        """Delete the PodGroup, if the plan says so, and put down in `outcome` how that failed."""
        if plan.delete_pod_group is None:
            return
        result = self._delete(job, plan.delete_pod_group)
        if isinstance(result, KubeError):
            self._events.failed(job, "FailedDeletePodGroup", "Error deleting", [result])
            outcome.errors.append(result)
        elif result:
            self._metrics.children_deleted("podgroups", 1)
            message = f"Deleted PodGroup: {plan.delete_pod_group.name}"
            self._events.emit(job, (PlannedEvent("Normal", "SuccessfulDeletePodGroup", message),))

    def write(self, job: TFJob, plan: Plan, outcome: Outcome) -> bool:
        """Create or change the PodGroup; False if its pods can't be created, for it is not there."""
        if plan.patch_pod_group is not None:
            error = self._patch(job, plan.patch_pod_group)
            if error is not None:
                self._failed(job, error, outcome, "Error changing PodGroup")
        if plan.create_pod_group is None:
            return True
        result = self._create(job, plan.create_pod_group)
        self._metrics.children_created("podgroups", int(result is None), int(result is not None))
        if isinstance(result, KubeError):
            self._failed(job, result, outcome, "Error creating PodGroup")
        elif result is not None and result.taken is Taken.FOREIGN:
            self._events.name_is_taken(job, "podgroups", result.message)
            outcome.errors.append(NameTaken(result.message))
        elif result is not None:
            outcome.waiting = True
        return result is None or (isinstance(result, Occupant) and result.taken is Taken.OURS)

    def _failed(self, job: TFJob, error: KubeError, outcome: Outcome, what: str) -> None:
        if isinstance(error, InvalidError):
            outcome.refused = refusal(_SCHEDULING, "PodGroup", error)
        self._events.failed_create(job, "podgroups", what, [error])
        outcome.errors.append(error)

    def _create(self, job: TFJob, one: PodGroupCreate) -> KubeError | Occupant | None:
        """Create it; None if that was done, else the failure or who has its name."""
        key = _key(job)
        self._expectations.expect_creations(key, 1)
        try:
            self._client.create(self._resource, job.metadata.namespace, one.body, decode_nothing)
        except KubeError as error:
            self._expectations.creation_observed(key)
            return found_instead(error, self._client, self._claimer, job, self._resource, one.name, None)
        logger.info("created PodGroup %s", one.name, extra={"job": job.metadata.key})
        return None

    def _patch(self, job: TFJob, one: PodGroupPatch) -> KubeError | None:
        """Change it; what is gone, or another one of its name, needs no change."""
        # The UID is a precondition: the change was made for that PodGroup, not for a successor.
        change = {**one.change, "metadata": {**one.change.get("metadata", {}), "uid": one.uid}}
        try:
            self._client.patch(self._resource, job.metadata.namespace, one.name, change, decode_nothing)
        except (NotFoundError, ConflictError):
            return None
        except KubeError as error:
            return error
        logger.info("changed PodGroup %s: %s", one.name, one.change, extra={"job": job.metadata.key})
        return None

    def _delete(self, job: TFJob, one: PodGroupDelete) -> KubeError | bool:
        """Delete it; whether it was there, or the failure."""
        key = _key(job)
        self._expectations.expect_deletions(key, (one.uid,))
        try:
            self._client.delete(self._resource, job.metadata.namespace, one.name, uid=one.uid)
        except (NotFoundError, ConflictError):
            self._expectations.deletion_observed(key, one.uid)
            return False
        except KubeError as error:
            self._expectations.deletion_observed(key, one.uid)
            return error
        logger.info("deleted PodGroup %s: %s", one.name, one.reason, extra={"job": job.metadata.key})
        return True


def _key(job: TFJob) -> ExpectationKey:
    return expectation_key(job.metadata.uid, "", "podgroups")
