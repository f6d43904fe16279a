"""Whose objects are whose: adoption of orphans that carry a job's labels, release of objects that lost them.

Ownership is a UID in an owner reference, never a name: a job that was deleted and made anew under its old name must
not inherit what the garbage collector is about to remove. Everything is read from the cache; only an orphan that is
to be adopted costs a live look at the job, as in Kubernetes' own controllers, for a job seen in a stale cache may be
gone, and adopting for it would keep the orphan from whoever comes next.

An adoption or release that the API server refuses (a policy, mostly) is told of and tried again; the job goes on
without the object.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec

from tfoperator.api import names
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller.kinds import ObjectKind
from tfoperator.controller.observe.informers import ControllerInformers
from tfoperator.controller.pods import PodGroup, decode_pod_group, is_service_of, owner_reference
from tfoperator.informers import CONTROLLER_UID_INDEX, ORPHANS_INDEX, Lister
from tfoperator.kube.errors import (
    BadRequestError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    namespace_is_ending,
)
from tfoperator.kube.objects import (
    Deployment,
    HasMetadata,
    ObjectMeta,
    Pod,
    Service,
    decode_deployment,
    decode_partial,
    decode_pod,
    decode_service,
    object_key,
)
from tfoperator.kube.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from tfoperator.kube.verbs import ApiClient, Decoder

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=HasMetadata)


def matches(labels: Mapping[str, str], job_name: str) -> bool:
    """Whether these labels are those of an object of the job of this name (in the same namespace)."""
    try:
        return labels[names.LABEL_JOB_NAME] == job_name and labels[names.LABEL_OPERATOR_NAME] == names.OPERATOR_NAME
    except KeyError:
        return False


def versions_of(job: TFJob, owned: Iterable[HasMetadata]) -> frozenset[str]:
    """By what a later look tells whether any of these has changed: no two states of any objects share a version."""
    return frozenset([job.metadata.resource_version, *[one.metadata.resource_version for one in owned]])


def _has_a_name_of(job: TFJob, resource: Resource, orphan: ObjectMeta) -> bool:
    """Whether the operator gives objects of this kind such a name; pods count by their labels alone.

    Somebody's own services and deployments may carry a job's labels: `kubectl expose` copies a pod's.
    """
    if resource == SERVICES:
        return is_service_of(job, orphan)
    return resource != DEPLOYMENTS or orphan.name == names.tensorboard_name(job.metadata.name)


def is_refused(error: KubeError) -> bool:
    """Whether the API server does not want a change of an object, which says nothing against other objects."""
    return isinstance(error, ForbiddenError | InvalidError | BadRequestError) and not namespace_is_ending(error)


class Claimed(NamedTuple):
    """What a job controls; of PodGroups only the one that has the job's name.

    `refused` has by object why it could not be adopted or released.
    """

    pods: tuple[Pod, ...]
    services: tuple[Service, ...]
    deployments: tuple[Deployment, ...]
    pod_group: PodGroup | None
    refused: Mapping[str, str]


class Claimer:
    """Finds a job's objects in the cache, and adopts or releases where labels and owners disagree."""

    def __init__(self, client: ApiClient, informers: ControllerInformers) -> None:
        self._client = client
        self._pods = informers.pods.lister
        self._services = informers.services.lister
        self._deployments = informers.deployments.lister
        self._gang = informers.gang
        self._pod_groups = None if informers.pod_groups is None else informers.pod_groups.lister
        self._listers: dict[ObjectKind, Lister[Any] | None] = {
            "pods": self._pods,
            "services": self._services,
            "deployments": self._deployments,
            "podgroups": self._pod_groups,
        }

    def claim(self, job: TFJob) -> Claimed:
        """What the job controls. Without orphans or strays this makes no API call.

        Raises KubeError (a ConflictError when the cache is behind) if an adoption or release fails but by a refusal.
        """
        refused: dict[str, str] = {}
        return Claimed(
            self._claim(job, PODS, self._pods, decode_pod, refused),
            self._claim(job, SERVICES, self._services, decode_service, refused),
            self._claim(job, DEPLOYMENTS, self._deployments, decode_deployment, refused),
            self._claim_pod_group(job, refused),
            refused,
        )

    def versions(self, job: TFJob) -> frozenset[str]:
        """The versions of the job and of all that it controls, as the caches show them."""
        uid = job.metadata.uid
        listers = [lister for lister in self._listers.values() if lister is not None]
        owned = [one for lister in listers for one in lister.by_index(CONTROLLER_UID_INDEX, uid)]
        return versions_of(job, owned)

    def _claim_pod_group(self, job: TFJob, refused: dict[str, str]) -> PodGroup | None:
        if self._gang is None or self._pod_groups is None:
            return None
        found = self._claim(job, self._gang.pod_groups, self._pod_groups, decode_pod_group, refused)
        return next((one for one in found if one.metadata.name == job.metadata.name), None)

    def label(self, job: TFJob, resource: Resource, owned: ObjectMeta) -> None:
        """Give an object of the job the labels by which caches find it."""
        logger.info("labelling %s %s", resource.kind.lower(), owned.key, extra={"job": job.metadata.key})
        labels = {names.LABEL_OPERATOR_NAME: names.OPERATOR_NAME, names.LABEL_JOB_NAME: job.metadata.name}
        change = {"metadata": {"uid": owned.uid, "labels": labels}}
        self._client.patch(resource, owned.namespace, owned.name, change, decode_partial)

    def shows_alive(self, kind: ObjectKind, namespace: str, name: str, uid: str) -> bool:
        """Whether the cache has this object, and knows nothing of its deletion."""
        lister = self._listers.get(kind)
        if lister is None:
            return False
        cached = lister.find(object_key(namespace, name))
        return cached is not None and cached.metadata.uid == uid and cached.metadata.deletion_timestamp is None

    def can_adopt(self, job: TFJob) -> bool:
        """Whether the job is still there and not being deleted: asks the API server."""
        meta = job.metadata
        try:
            live = self._client.get(TFJOBS, meta.namespace, meta.name, decode_partial)
        except NotFoundError:
            return False
        return live.metadata.uid == meta.uid and live.metadata.deletion_timestamp is None

    def adopt(self, job: TFJob, resource: Resource, orphan: ObjectMeta, decode: Decoder[T]) -> T | None:
        """Make the job the orphan's controller; None if the orphan is gone. Raises ConflictError if it has changed."""
        logger.info("adopting %s %s", resource.kind.lower(), orphan.key, extra={"job": job.metadata.key})
        others = map(msgspec.to_builtins, orphan.owner_references)
        return self._set_owners(resource, orphan, [*others, owner_reference(job)], decode)

    def _claim(
        self, job: TFJob, resource: Resource, lister: Lister[T], decode: Decoder[T], refused: dict[str, str]
    ) -> tuple[T, ...]:
        meta = job.metadata
        claimed: list[T] = []
        for owned in lister.by_index(CONTROLLER_UID_INDEX, meta.uid):
            if owned.metadata.namespace != meta.namespace:
                # Whoever has learnt the UID may write it anywhere, and be believed until the garbage collector comes.
                continue
            if matches(owned.metadata.labels, meta.name):
                claimed.append(owned)
            else:
                with _noting(refused, resource, owned.metadata, "lacks labels of its job: not released"):
                    self.release(job, resource, owned.metadata, decode)
        orphans = [
            orphan
            for orphan in lister.by_index(ORPHANS_INDEX, meta.namespace)
            if matches(orphan.metadata.labels, meta.name)
            and orphan.metadata.deletion_timestamp is None
            and _has_a_name_of(job, resource, orphan.metadata)
        ]
        if orphans and self.can_adopt(job):
            for orphan in orphans:
                with _noting(refused, resource, orphan.metadata, "is labelled as one of this job: not adopted"):
                    adopted = self.adopt(job, resource, orphan.metadata, decode)
                    claimed += [] if adopted is None else [adopted]
        return tuple(claimed)

    def release(self, job: TFJob, resource: Resource, owned: ObjectMeta, decode: Decoder[Any]) -> None:
        """Give up control of an object whose labels are no longer the job's."""
        logger.info(
            "releasing %s %s: its labels are no longer this job's",
            resource.kind.lower(),
            owned.key,
            extra={"job": job.metadata.key},
        )
        others = (reference for reference in owned.owner_references if reference.uid != job.metadata.uid)
        try:
            self._set_owners(resource, owned, list(map(msgspec.to_builtins, others)), decode)
        except InvalidError as error:
            # It can't be changed, e.g. because it is being deleted: then it needs no release either.
            logger.debug("not released: %s", error, extra={"job": job.metadata.key})

    def _set_owners(
        self, resource: Resource, meta: ObjectMeta, owners: list[dict[str, Any]], decode: Decoder[T]
    ) -> T | None:
        change = {
            "metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "ownerReferences": owners,
            }
        }
        try:
            return self._client.patch(resource, meta.namespace, meta.name, change, decode)
        except NotFoundError:
            return None


@contextmanager
def _noting(refused: dict[str, str], resource: Resource, meta: ObjectMeta, what: str) -> Iterator[None]:
    """Note under the object's name why the API server refuses to change it. Raises every other error."""
    try:
        yield
    except KubeError as error:
        if not is_refused(error):
            raise
        name = f"{resource.kind} {meta.key}"
        refused[name] = f"{name} {what}, and the job goes on without it: {error}"
