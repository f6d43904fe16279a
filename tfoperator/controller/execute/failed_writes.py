"""What became of a write that failed: it may have been carried out, or what it was for may be there already.

A 5xx or a broken connection says nothing about what the API server did. Whoever takes it for a refusal believes a cache
that still shows the pod, and its end, when the watch brings it, looks like a loss: a restart would be counted for a pod
that the operator itself has deleted.

When a create finds its name taken, the object may be ours, may be adopted, or is in the way. It is ours after a crash
between a create and the watch event that shows it, or when an answer was lost. A sync reads from the API server only
after such failures, for adoptions (`ledger/claims`) and where the cache is in doubt (`ledger/cache_lag`): each time
the cache has been proven wrong or incomplete.
"""

from __future__ import annotations

from datetime import datetime

from tfoperator.api import names
from tfoperator.api.names import replica_of
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.base.clock import seconds_between
from tfoperator.controller.execute.outcome import Applied, Result
from tfoperator.controller.ledger import Claims
from tfoperator.controller.plan import Action, Create, Delete
from tfoperator.kube.errors import (
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
from tfoperator.kube.objects import ObjectMeta, decode_partial, timestamp
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import Answer

_LATE = 30.0
"""Seconds after the grace period for which the end of an object is waited for without a word."""


def was_refused(error: KubeError) -> bool:
    """Whether the API server said that it has not done what it was asked for, nor has somebody else before."""
    return isinstance(error, ApiError) and not isinstance(error, ConflictError | ServerError)


def is_open(action: Action, error: KubeError) -> bool:
    """Whether the object has to be looked up to know what became of an action that failed like this."""
    if isinstance(action, Create):
        return isinstance(error, AlreadyExistsError)
    if not isinstance(action, Delete) or was_refused(error):
        return False
    if isinstance(error, ConflictError):
        return not action.resource_version
    # Refused: it was not processed. Silence: another question would take as long, and be answered as little.
    unanswered = isinstance(error, ConnectionRefused | DeadlineExceeded | ClientClosed)
    return not unanswered and isinstance(error, ApiError | TransportError)


def was_deleted(action: Delete, error: KubeError, found: Answer) -> bool:
    """Whether an object is gone, or on its way, although its deletion was answered with this error.

    `found` is what is there if that was open; the error is believed if there is no answer to that either.
    """
    if isinstance(error, NotFoundError) or isinstance(found, NotFoundError):
        return True
    return isinstance(found, ObjectMeta) and (found.uid != action.uid or found.deletion_timestamp is not None)


def found_instead(
    claims: Claims, job: TFJob, resource: Resource, wanted: Create, meta: ObjectMeta, now: datetime
) -> Applied:
    """Judge the object that has the name of one to be created; adopt it if it is a matching orphan. Raises KubeError.

    One that is being deleted, mostly a pod of an earlier job of the name, is waited for, and told of if it is late.
    It is the job's if its labels are those of the wanted object. A PodGroup without our labels gets them (the Go
    operator gives it none): there is one of it in a job, so no other controller can have lent it to the job.
    """
    labels = wanted.body["metadata"]["labels"]
    if meta.deletion_timestamp is not None:
        return Applied(wanted, Result.LEAVING, message=_late(resource, meta, meta.deletion_timestamp, now))
    matching = names.has_job_labels(meta.labels, job.metadata.name)
    if meta.controller is not None and meta.controller.uid == job.metadata.uid:
        if matching and _stands_for_the_same(meta.labels, labels):
            return Applied(wanted, Result.OURS)
        if matching:
            return _in_the_way(wanted, resource, meta, "is labelled as something else")
        if wanted.kind == "podgroups":
            claims.label(job, resource, meta)
            return Applied(wanted, Result.OURS)
        # Without our labels we never see it again: it is not one of the job's any more, but still has the name.
        claims.release(job, resource, meta, decode_partial)
        return _in_the_way(wanted, resource, meta, "no longer has the job's labels")
    if meta.controller is not None:
        owner = meta.controller
        if (owner.api_version, owner.kind, owner.name) == (TFJOBS.api_version, TFJOBS.kind, job.metadata.name):
            # There is one job of a name at a time, so its owner is gone: the garbage collector is on its way.
            return Applied(wanted, Result.LEAVING)
        return _in_the_way(wanted, resource, meta, f"belongs to {owner.kind} {owner.name}")
    # A pod counts by the job's labels alone; a service that has another replica's, or none, is somebody's own.
    exposes_another = wanted.kind == "services" and replica_of(meta.labels) != replica_of(labels)
    same_kind = _is_of_tensorboard(meta.labels) == _is_of_tensorboard(labels)
    if matching and same_kind and not exposes_another and claims.can_adopt(job):
        claims.adopt(job, resource, meta, decode_partial)
        return Applied(wanted, Result.OURS)
    return _in_the_way(wanted, resource, meta, "was not made by this job")


def _stands_for_the_same(one: dict[str, str], other: dict[str, str]) -> bool:
    return replica_of(one) == replica_of(other) and _is_of_tensorboard(one) == _is_of_tensorboard(other)


def _is_of_tensorboard(labels: dict[str, str]) -> bool:
    return names.LABEL_TENSORBOARD in labels


def _late(resource: Resource, meta: ObjectMeta, due: datetime, now: datetime) -> str:
    """What to say of an object that should have gone when it was `due`; empty if that is not long ago."""
    if seconds_between(due, now) < _LATE:
        return ""
    why = "a finalizer keeps it" if meta.finalizers else "its node may be lost"
    return (
        f"{resource.kind} {meta.key} is in the way: it is being deleted and should have gone at {timestamp(due)}, but "
        f"{why}. The job's own is created once it is gone"
    )


def _in_the_way(wanted: Create, resource: Resource, meta: ObjectMeta, why: str) -> Applied:
    message = (
        f"{resource.kind} {meta.key} is in the way: it {why}. "
        "Delete or rename it; the job's own is created once the name is free"
    )
    return Applied(wanted, Result.FOREIGN, message=message)
