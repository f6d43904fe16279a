"""Carries out what a plan says about a job's PodGroup: one request at most, with expectations like those of pods."""

from __future__ import annotations

import logging

from tfoperator.api.v1.types import TFJob
from tfoperator.controller.actions import PodGroupCreate, PodGroupDelete, PodGroupPatch
from tfoperator.controller.claim import Claimer
from tfoperator.controller.gang import GangScheduler
from tfoperator.controller.handlers import expectation_key
from tfoperator.controller.name_taken import Occupant, resolve
from tfoperator.expectations import ExpectationKey, Expectations
from tfoperator.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from tfoperator.kube.verbs import ApiClient

__all__ = ["PodGroupWriter"]

logger = logging.getLogger(__name__)


class PodGroupWriter:
    """Creates, changes and deletes PodGroups of one gang scheduler. Thread-safe, for different jobs at a time."""

    def __init__(self, client: ApiClient, gang: GangScheduler, claimer: Claimer, expectations: Expectations) -> None:
        self._client = client
        self._resource = gang.pod_groups
        self._claimer = claimer
        self._expectations = expectations

    def create(self, job: TFJob, one: PodGroupCreate) -> KubeError | Occupant | None:
        """Create it; None if that was done, else the failure or who has its name."""
        key = _key(job)
        self._expectations.expect_creations(key, 1)
        try:
            self._client.create(self._resource, job.metadata.namespace, one.body, _ignore)
        except KubeError as error:
            self._expectations.creation_observed(key)
            if not isinstance(error, AlreadyExistsError):
                return error
            try:
                return resolve(self._client, self._claimer, job, self._resource, one.name, None)
            except KubeError as second:
                return second
        logger.info("created PodGroup %s", one.name, extra={"job": job.metadata.key})
        return None

    def patch(self, job: TFJob, one: PodGroupPatch) -> KubeError | None:
        """Change it; what is gone, or another one of its name, needs no change."""
        # The UID is a precondition: the change was made for that PodGroup, not for a successor.
        change = {**one.change, "metadata": {**one.change.get("metadata", {}), "uid": one.uid}}
        try:
            self._client.patch(self._resource, job.metadata.namespace, one.name, change, _ignore)
        except (NotFoundError, ConflictError):
            return None
        except KubeError as error:
            return error
        logger.info("changed PodGroup %s: %s", one.name, one.change, extra={"job": job.metadata.key})
        return None

    def delete(self, job: TFJob, one: PodGroupDelete) -> KubeError | bool:
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


def _ignore(_: bytes) -> None:
    """Decode nothing: the watch brings what was written."""
