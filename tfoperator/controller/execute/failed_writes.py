"""Determines the result of a failed write: it may have been carried out, or its object may exist already.

A 5xx or a broken connection doesn't show whether the API server has carried out the write. If the operator took it for
a refusal, it would trust a cache that still shows the pod. The pod's end would then look like a loss when the watch
delivers it: the operator would count a restart for a pod that it has deleted itself.

When a create finds its name taken, the object may be ours, may be adopted, or is in the way. It is ours after a crash
between a create and the watch event that shows it, or when an answer was lost. A sync reads from the API server only
after such failures, for adoptions (`ledger/claims`) and where the cache is in doubt (`ledger/cache_lag`): each time the
cache has been proven wrong or incomplete.
"""

from __future__ import annotations

from datetime import datetime

from tfoperator.api.replicas import names
from tfoperator.api.replicas.data_service import DataServiceMember, member_of
from tfoperator.api.replicas.names import replica_of
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.base.clock import seconds_between
from tfoperator.controller.execute.outcome import Applied, Result
from tfoperator.controller.ledger import Claims
from tfoperator.controller.plan.values.actions import Action, Create, Delete
from tfoperator.kube.protocol.errors import (
    AlreadyExistsError,
    ApiError,
    ClientClosed,
    ConflictError,
    ConnectionRefused,
    DeadlineExceeded,
    KubeError,
    NotFoundError,
    ServerError,
    TransportError,
)
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import Answer
from tfoperator.kube.views.objects import ObjectMeta, decode_partial, timestamp

_LATE_SECONDS = 30.0
"""Seconds after the grace period for which the end of an object is awaited without a message."""


def was_refused(error: KubeError) -> bool:
    """Return whether the error proves that neither this request nor an earlier attempt has had the requested effect."""
    return isinstance(error, ApiError) and not isinstance(error, ConflictError | ServerError)


def is_open(action: Action, error: KubeError) -> bool:
    """Return whether the object must be looked up to know the result of an action that failed with this error."""
    if isinstance(action, Create):
        return isinstance(error, AlreadyExistsError)
    if not isinstance(action, Delete) or was_refused(error):
        return False
    if isinstance(error, ConflictError):
        return not action.resource_version
    # Refused: not processed. Timeout: a lookup would take as long, and probably get no answer either.
    unanswered = isinstance(error, ConnectionRefused | DeadlineExceeded | ClientClosed)
    return not unanswered and isinstance(error, ApiError | TransportError)


def was_deleted(action: Delete, error: KubeError, found: Answer) -> bool:
    """Return whether an object is gone, or terminating, although its deletion was answered with this error.

    `found` is the lookup's result if that was open; the error counts if the lookup got no answer either.
    """
    if isinstance(error, NotFoundError) or isinstance(found, NotFoundError):
        return True
    return isinstance(found, ObjectMeta) and (found.uid != action.uid or found.deletion_timestamp is not None)


def found_instead(
    claims: Claims, job: TFJob, resource: Resource, wanted: Create, meta: ObjectMeta, now: datetime
) -> Applied:
    """Judge the object that has the name of a wanted object; adopt it if it is a matching orphan. Raises KubeError.

    An object that is being deleted, mostly a pod of an earlier job of the name, is awaited, and reported if it is late.
    It is the job's if its labels are the labels of the wanted object. A PodGroup without our labels gets them (the Go
    operator gives it none): a job has only one PodGroup, so other controllers can't have created it for the job.
    """
    labels = wanted.body["metadata"]["labels"]
    if meta.deletion_timestamp is not None:
        return Applied(wanted, Result.LEAVING, message=_late(resource, meta, meta.deletion_timestamp, now))
    matching = names.has_job_labels(meta.labels, job.metadata.name)
    if meta.controller is not None and meta.controller.uid == job.metadata.uid:
        if matching and _stands_for_the_same(meta.labels, labels):
            return Applied(wanted, Result.OURS)
        if matching:
            return _in_the_way(wanted, resource, meta, "has the labels of another replica")
        if wanted.kind == "podgroups":
            claims.label(job, resource, meta)
            return Applied(wanted, Result.OURS)
        # Without our labels the caches never show it again: it is not the job's any longer, but holds the name.
        claims.release(job, resource, meta, decode_partial)
        return _in_the_way(wanted, resource, meta, "no longer has the job's labels")
    if meta.controller is not None:
        owner = meta.controller
        if (owner.api_version, owner.kind, owner.name) == (TFJOBS.api_version, TFJOBS.kind, job.metadata.name):
            # There is one job of a name at a time, so its owner is gone: the garbage collector will delete it.
            return Applied(wanted, Result.LEAVING)
        return _in_the_way(wanted, resource, meta, f"belongs to {owner.kind} {owner.name}")
    # A pod counts by the job's labels alone; a service with another replica's labels, or none, belongs to a user.
    exposes_another = wanted.kind == "services" and replica_of(meta.labels) != replica_of(labels)
    same_kind = _is_beside(meta.labels) == _is_beside(labels)
    if matching and same_kind and not exposes_another:
        if why := claims.why_not_adopted(job, resource, meta):
            return _in_the_way(wanted, resource, meta, why)
        if claims.can_adopt(job):
            claims.adopt(job, resource, meta, decode_partial)
            return Applied(wanted, Result.OURS)
    return _in_the_way(wanted, resource, meta, "does not belong to this job")


def _stands_for_the_same(one: dict[str, str], other: dict[str, str]) -> bool:
    return replica_of(one) == replica_of(other) and _is_beside(one) == _is_beside(other)


def _is_beside(labels: dict[str, str]) -> tuple[bool, DataServiceMember | None]:
    """Return whether an object is a TensorBoard's, and the member of a data service that it belongs to."""
    return names.LABEL_TENSORBOARD in labels, member_of(labels)


def _late(resource: Resource, meta: ObjectMeta, due: datetime, now: datetime) -> str:
    """Return the message about an object that should have gone when it was `due`; empty if that is not long ago."""
    if seconds_between(due, now) < _LATE_SECONDS:
        return ""
    why = "it has a finalizer" if meta.finalizers else "its node may be lost"
    return (
        f"{resource.kind} {meta.key} has a name that this job needs: it is being deleted and should have been gone "
        f"at {timestamp(due)}, but {why}. The operator creates the job's own object when the name is free"
    )


def _in_the_way(wanted: Create, resource: Resource, meta: ObjectMeta, why: str) -> Applied:
    step = (
        "Delete it, or choose another name for the job; the operator creates the job's own object when the name is free"
    )
    message = f"{resource.kind} {meta.key} has a name that this job needs: it {why}. {step}"
    return Applied(wanted, Result.FOREIGN, message=message)
