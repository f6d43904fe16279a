"""What to do when a create finds its name taken: the object may be ours, may be adopted, or is in the way.

It is ours after a crash between a create and the watch event that shows it, or when an answer was lost. A sync reads
from the API server only here, after a lost answer to a deletion (`lost_answers`), for adoptions (`claim`) and where the
cache is in doubt (`cache_lag`): each time the cache has been proven wrong or incomplete.
"""

from __future__ import annotations

from datetime import datetime

from tfoperator.api import names
from tfoperator.api.names import replica_of
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.base.clock import seconds_between
from tfoperator.controller.execute.outcome import Applied, Result
from tfoperator.controller.ledger import Claims
from tfoperator.controller.plan import Create
from tfoperator.kube.errors import NotFoundError
from tfoperator.kube.objects import ObjectMeta, decode_partial, timestamp
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient

_LATE = 30.0
"""Seconds after the grace period for which the end of an object is waited for without a word."""


def found_instead(
    client: ApiClient, claims: Claims, job: TFJob, resource: Resource, wanted: Create, now: datetime
) -> Applied:
    """Look at the object that has the name of one to be created; adopt it if it is a matching orphan. Raises KubeError.

    One that is being deleted, mostly a pod of an earlier job of the name, is waited for, and told of if it is late.
    It is the job's if its labels are those of the wanted object. A PodGroup without our labels gets them (the Go
    operator gives it none): there is one of it in a job, so no other controller can have lent it to the job.
    """
    labels = wanted.body["metadata"]["labels"]
    try:
        meta = client.get(resource, job.metadata.namespace, wanted.name, decode_partial).metadata
    except NotFoundError:
        return Applied(wanted, Result.LEAVING)
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
