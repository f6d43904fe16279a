"""What to do when a create finds its name taken: the object may be ours, may be adopted, or is in the way.

It is ours after a crash between a create and the watch event that shows it, or when an answer was lost. This is the one
path on which a sync reads from the API server: the cache has just been proven wrong or incomplete.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import NamedTuple

from tfoperator.api.names import replica_of
from tfoperator.api.v1.types import TFJOBS, ReplicaType, TFJob
from tfoperator.controller.claim import Claimer, matches
from tfoperator.controller.tensorboard import is_board
from tfoperator.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from tfoperator.kube.objects import ObjectMeta, decode_partial
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient

__all__ = ["NameTaken", "Occupant", "SaidOnce", "Taken", "found_instead", "resolve"]

logger = logging.getLogger(__name__)


class SaidOnce(KubeError):
    """Something that is tried again and again, and whose failure has been told to the job's owner once."""


class NameTaken(SaidOnce):
    """A name that the job needs belongs to an object of somebody else, so the replica (or TensorBoard) has to wait."""


class Taken(Enum):
    """Whose object has the name."""

    OURS = "it is controlled by this job, or is now"
    LEAVING = "it is being deleted, or gone by now, or about to be, like what an earlier job of this name owned"
    FOREIGN = "it is somebody else's"


class Occupant(NamedTuple):
    """The outcome; `message` is for people and only set for FOREIGN."""

    taken: Taken
    message: str = ""


def found_instead(
    error: KubeError,
    client: ApiClient,
    claimer: Claimer,
    job: TFJob,
    resource: Resource,
    name: str,
    replica: tuple[ReplicaType, int] | None,
) -> KubeError | Occupant:
    """What a create that failed with `error` found: who has the name if it is taken (see `resolve`), else the error."""
    if not isinstance(error, AlreadyExistsError):
        return error
    try:
        return resolve(client, claimer, job, resource, name, replica)
    except KubeError as second:
        return second


def resolve(
    client: ApiClient,
    claimer: Claimer,
    job: TFJob,
    resource: Resource,
    name: str,
    replica: tuple[ReplicaType, int] | None,
    *,
    board: bool = False,
) -> Occupant:
    """Look at the object that has the name of a replica, adopt it if it is a matching orphan. Raises KubeError.

    `replica` None is for an object that there is one of in a job. Nobody else can have lent that to the job, so without
    our labels (the Go operator gives a PodGroup none) it gets them. `board`: it is the TensorBoard's, and has a label
    that says so.
    """
    try:
        meta = client.get(resource, job.metadata.namespace, name, decode_partial).metadata
    except NotFoundError:
        return Occupant(Taken.LEAVING)
    if meta.deletion_timestamp is not None:
        return Occupant(Taken.LEAVING)
    matching = matches(meta.labels, job.metadata.name)
    if meta.controller is not None and meta.controller.uid == job.metadata.uid:
        if matching and replica_of(meta.labels) == replica and is_board(meta.labels) == board:
            return Occupant(Taken.OURS)
        if matching:
            return Occupant(Taken.FOREIGN, _explain(resource, meta, "is labelled as something else"))
        if replica is None and not board:
            claimer.label(job, resource, meta)
            return Occupant(Taken.OURS)
        # Without our labels we never see it again: it is not one of the job's any more, but still has the name.
        claimer.release(job, resource, meta, decode_partial)
        return Occupant(Taken.FOREIGN, _explain(resource, meta, "no longer has the job's labels"))
    if meta.controller is not None:
        owner = meta.controller
        if (owner.api_version, owner.kind, owner.name) == (TFJOBS.api_version, TFJOBS.kind, job.metadata.name):
            # There is one job of a name at a time, so its owner is gone: the garbage collector is on its way.
            return Occupant(Taken.LEAVING)
        return Occupant(Taken.FOREIGN, _explain(resource, meta, f"belongs to {owner.kind} {owner.name}"))
    if matching and is_board(meta.labels) == board and claimer.can_adopt(job):
        claimer.adopt(job, resource, meta, decode_partial)
        return Occupant(Taken.OURS)
    return Occupant(Taken.FOREIGN, _explain(resource, meta, "was not made by this job"))


def _explain(resource: Resource, meta: ObjectMeta, why: str) -> str:
    return (
        f"{resource.kind} {meta.key} is in the way: it {why}. "
        "Delete or rename it; the job's own is created once the name is free"
    )
