"""Observes one job: combines the caches, the facts in `JobMemory`, and requests that no cache shows yet.

To a job belong the objects that it controls, and orphans with its labels. If labels and owner of an object do not
agree, `Claims` adopts or releases the object. If the API server refuses the adoption or release (usually because of a
policy), the operator reports the refusal and retries; the job continues without the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from tfoperator.api.cached_job import without_templates
from tfoperator.api.defaults import default
from tfoperator.api.replicas import names
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.controller.collaborators import Collaborators
from tfoperator.controller.ledger import Ledger, StaleCache, is_refused, why_not_adopted
from tfoperator.controller.observe.informers import ControllerInformers, priorities_of
from tfoperator.controller.plan.values.observed import Observed, UnkeptLogs
from tfoperator.controller.pods.naming import is_service_of
from tfoperator.controller.pods.pod_groups import PodGroup, decode_pod_group
from tfoperator.informers import CONTROLLER_UID_INDEX, ORPHANS_INDEX, Lister
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from tfoperator.kube.protocol.verbs import Decoder
from tfoperator.kube.views.deployments import decode_deployment
from tfoperator.kube.views.objects import (
    HasMetadata,
    ObjectMeta,
    decode_pod,
    decode_service,
)

T = TypeVar("T", bound=HasMetadata)


def versions_of(job: str, owned: Iterable[HasMetadata]) -> frozenset[str]:
    """Return the resourceVersions of a job and of its objects.

    After any later change of the job or an object, the result differs, because an API server never uses a version
    twice.
    """
    return frozenset([job, *[obj.metadata.resource_version for obj in owned]])


def _has_a_name_of(job: TFJob, resource: Resource, orphan: ObjectMeta) -> bool:
    """Return whether the operator could have given the orphan's name to an object of the job.

    This matters for services and deployments, because a user's own services and deployments may have a job's labels:
    `kubectl expose` copies the labels of a pod. For objects of other kinds, the result is always True.
    """
    if resource == SERVICES:
        return is_service_of(job, orphan)
    return resource != DEPLOYMENTS or orphan.name == names.tensorboard_name(job.metadata.name)


class Observer:
    """Makes the input of `plan()`. It is thread-safe for different jobs at the same time."""

    def __init__(self, outside: Collaborators, informers: ControllerInformers, ledger: Ledger) -> None:
        self._ledger = ledger
        self._listers = informers.owned
        self._gang = informers.gang
        self._client = outside.client
        self._clock = outside.clock
        self._archive = outside.archive
        self._progress_of = outside.progress_of
        self._witnesses = outside.witnesses
        classes = informers.priority_classes
        self._priority_classes = None if classes is None else classes.lister

    def observe(self, cached: TFJob) -> Observed:
        """Return all known facts about the job.

        The method makes no API call, except to adopt an orphan, or to release an object that no longer has the job's
        labels. If the API server refuses such a call, `Observed.refused` has the reason. If such a call fails for
        another reason, the method raises KubeError (ConflictError if the cache is behind).
        """
        remembered = self._ledger.memory.recall(cached, self._clock.monotonic())
        newest, unseen = self._ledger.cache_lag.look(cached)
        job = msgspec.structs.replace(remembered.job, metadata=newest.metadata, status=newest.status)
        refused: dict[str, str] = {}
        listers = self._listers
        pods = self._claim(job, PODS, listers["pods"], decode_pod, refused)
        archive = self._archive
        # Log lines are needed only with a progress deadline, and stacks only with a progress deadline or an active
        # deadline.
        watched = job.spec.policy.progress_deadline_seconds is not None
        ends = job.spec.policy.active_deadline_seconds is not None
        logs = self._witnesses.logs if watched else None
        stacks = self._witnesses.stacks if watched or ends else None
        return msgspec.structs.replace(
            remembered,
            job=job,
            pods=pods,
            services=self._claim(job, SERVICES, listers["services"], decode_service, refused),
            pod_group=self._claim_pod_group(job, refused),
            priorities={} if self._priority_classes is None else priorities_of(self._priority_classes.list()),
            deployments=self._claim(job, DEPLOYMENTS, listers["deployments"], decode_deployment, refused),
            unseen=unseen,
            unkept_logs=None if archive is None else UnkeptLogs(archive.unkept(pods), archive.timeout),
            progress=None if self._progress_of is None else self._progress_of(job),
            log_lines=None if logs is None else logs.known(job.metadata.uid),
            stacks_taken=None if stacks is None else stacks.taken(job.metadata.uid),
            refused=refused,
        )

    def with_templates(self, observed: Observed) -> Observed:
        """Return `observed` with the job's templates, of which the cache has only hashes; this takes one API call.

        Raises KubeError if the call fails; raises StaleCache if the cache shows another spec.
        """
        job = observed.job
        live = default(self._client.get(TFJOBS, job.metadata.namespace, job.metadata.name, decode_tfjob))
        if live.metadata.uid != job.metadata.uid or without_templates(live.spec) != job.spec:
            raise StaleCache("the job has changed, but the cache does not show it yet")
        return msgspec.structs.replace(observed, job=msgspec.structs.replace(job, spec=live.spec))

    def versions(self, job: TFJob) -> frozenset[str]:
        """Return the versions of the job and of all objects that it controls, as the caches show them."""
        uid = job.metadata.uid
        owned = [obj for lister in self._listers.values() for obj in lister.by_index(CONTROLLER_UID_INDEX, uid)]
        return versions_of(job.metadata.resource_version, owned)

    def _claim_pod_group(self, job: TFJob, refused: dict[str, str]) -> PodGroup | None:
        if self._gang is None:
            return None
        pod_groups = self._claim(job, self._gang.pod_groups, self._listers["podgroups"], decode_pod_group, refused)
        return next((pod_group for pod_group in pod_groups if pod_group.metadata.name == job.metadata.name), None)

    def _claim(
        self, job: TFJob, resource: Resource, lister: Lister[T], decode: Decoder[T], refused: dict[str, str]
    ) -> tuple[T, ...]:
        meta = job.metadata
        claimed: list[T] = []
        for owned in lister.by_index(CONTROLLER_UID_INDEX, meta.uid):
            if owned.metadata.namespace != meta.namespace:
                # A client may write the job's UID into an owner reference in any namespace. Owner and object must be in
                # the same namespace, so the garbage collector will delete this object.
                continue
            if names.has_job_labels(owned.metadata.labels, meta.name):
                claimed.append(owned)
            else:
                with _noting(
                    refused,
                    resource,
                    owned.metadata,
                    "no longer has the labels of this job, but the API server does not let the operator release it",
                ):
                    self._ledger.claims.release(job, resource, owned.metadata, decode)
        orphans = [
            orphan
            for orphan in lister.by_index(ORPHANS_INDEX, meta.namespace)
            if names.has_job_labels(orphan.metadata.labels, meta.name)
            and orphan.metadata.deletion_timestamp is None
            and _has_a_name_of(job, resource, orphan.metadata)
            and not why_not_adopted(job, orphan)
        ]
        if orphans and self._ledger.claims.can_adopt(job):
            for orphan in orphans:
                with _noting(
                    refused,
                    resource,
                    orphan.metadata,
                    "has the labels of this job, but the API server does not let the operator adopt it",
                ):
                    adopted = self._ledger.claims.adopt(job, resource, orphan.metadata, decode)
                    claimed += [] if adopted is None else [adopted]
        return tuple(claimed)


@contextmanager
def _noting(refused: dict[str, str], resource: Resource, meta: ObjectMeta, what: str) -> Iterator[None]:
    """Run the `with` block, which changes an object. If the API server refuses the change, record why in `refused`.

    The key of the record is the object's name. `what` is the middle of the message: the refused change, and its reason.
    Any error that is no refusal is raised.
    """
    try:
        yield
    except KubeError as error:
        if not is_refused(error):
            raise
        name = f"{resource.kind} {meta.key}"
        refused[name] = f"{name} {what}, so the job continues without this {resource.kind}: {error}"
