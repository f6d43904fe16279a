"""Determines the result of a failed write: the API server may have executed the write, or the object may exist already.

If the answer is a 5xx or the connection breaks, the client can't know whether the API server has executed the write. If
the operator assumed that a deletion was refused, it would trust a cache that still shows the pod. When the watch then
shows the end of the pod, it would look like a loss: the operator would count a restart for a pod that it has deleted
itself.

If the name of an object to create is taken, the existing object may belong to the job, may be adopted, or may be in the
way. It belongs to the job if the operator crashed between the creation and the watch event that shows it, or if the
answer to the creation was lost.

A sync reads from the API server after such failures. It does so in a few other cases, too, for example for adoptions
(`ledger/claims`), and if the cache is in doubt (`ledger/cache_lag`).
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
"""If an object still exists this many seconds after the end of its grace period, the operator reports that to the job's
owner.
"""


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
    # If the connection was refused, the API server has not received the deletion. After a timeout, a lookup would
    # probably end with a timeout, too.
    unanswered = isinstance(error, ConnectionRefused | DeadlineExceeded | ClientClosed)
    return not unanswered and isinstance(error, ApiError | TransportError)


def was_deleted(action: Delete, error: KubeError, found: Answer) -> bool:
    """Return whether an object is gone or is being deleted, although its deletion was answered with this error.

    `found` is the result of the lookup, if there was a lookup; if the lookup got no answer either, only the error
    counts.
    """
    if isinstance(error, NotFoundError) or isinstance(found, NotFoundError):
        return True
    return isinstance(found, ObjectMeta) and (found.uid != action.uid or found.deletion_timestamp is not None)


def found_instead(
    claims: Claims, job: TFJob, resource: Resource, wanted: Create, meta: ObjectMeta, now: datetime
) -> Applied:
    """Examine the existing object that has the name of an object to create; adopt it if it is an orphan that fits.

    Raises KubeError if a change of the existing object fails. If the existing object is being deleted (in most cases a
    pod of an earlier job with the same name), the operator waits for its end. If the deletion takes too long, the
    operator reports it. If the job controls the existing object, the object counts as created only if its labels name
    the same replica. If a PodGroup of the job lacks the operator's labels, the operator adds them: the Go operator,
    which creates PodGroups without labels, may have created it.
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
        # An informer selects by the operator's labels, so the caches never show this object. The job releases it, but
        # the object still has the name.
        claims.release(job, resource, meta, decode_partial)
        return _in_the_way(wanted, resource, meta, "no longer has the job's labels")
    if meta.controller is not None:
        owner = meta.controller
        if (owner.api_version, owner.kind, owner.name) == (TFJOBS.api_version, TFJOBS.kind, job.metadata.name):
            # The owner is an earlier job with the same name and another UID. That job is gone, so the garbage
            # collector will delete this object.
            return Applied(wanted, Result.LEAVING)
        return _in_the_way(wanted, resource, meta, f"belongs to {owner.kind} {owner.name}")
    # A pod needs only the job's labels. A service must also have the labels of this replica: otherwise a user has
    # created it for another purpose.
    exposes_another = wanted.kind == "services" and replica_of(meta.labels) != replica_of(labels)
    same_kind = _is_beside(meta.labels) == _is_beside(labels)
    if matching and same_kind and not exposes_another:
        if why := claims.why_not_adopted(job, resource, meta):
            return _in_the_way(wanted, resource, meta, why)
        if claims.can_adopt(job):
            claims.adopt(job, resource, meta, decode_partial)
            return Applied(wanted, Result.OURS)
    return _in_the_way(wanted, resource, meta, "does not belong to this job")


def _stands_for_the_same(labels: dict[str, str], other_labels: dict[str, str]) -> bool:
    return replica_of(labels) == replica_of(other_labels) and _is_beside(labels) == _is_beside(other_labels)


def _is_beside(labels: dict[str, str]) -> tuple[bool, DataServiceMember | None]:
    """Return whether these labels are from a TensorBoard, and the member of a data service that they name (or None)."""
    return names.LABEL_TENSORBOARD in labels, member_of(labels)


def _late(resource: Resource, meta: ObjectMeta, due: datetime, now: datetime) -> str:
    """Return the message about an object that should have been deleted by `due`.

    The result is empty if `due` was only a short time ago.
    """
    if seconds_between(due, now) < _LATE_SECONDS:
        return ""
    why = "it has a finalizer" if meta.finalizers else "its node may be lost"
    return (
        f"{resource.kind} {meta.key} has a name that this job needs: this {resource.kind} is being deleted and should "
        f"have been gone at {timestamp(due)}, but {why}. The operator will create the job's own object when the name "
        "is free"
    )


def _in_the_way(wanted: Create, resource: Resource, meta: ObjectMeta, why: str) -> Applied:
    step = (
        f"Delete this {resource.kind}, so that the operator can create the job's own {resource.kind}, or choose "
        "another name for the job"
    )
    message = f"{resource.kind} {meta.key} has a name that this job needs: this {resource.kind} {why}. {step}"
    return Applied(wanted, Result.FOREIGN, message=message)
