"""How a job's objects are called: as the Go operator calls them, or with a piece of the job's UID.

The choice is an operator's option, which may change while jobs run. Their names must not: a worker that is made anew
has to find its parameter servers under the names that they have, and nothing may be made twice under two names. So a
job keeps the naming of what it has, and only one that has nothing gets the option's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tfoperator.api import names
from tfoperator.api.v1.types import ReplicaType, TFJob
from tfoperator.kube.objects import HasMetadata, ObjectMeta


class Naming(msgspec.Struct, frozen=True):
    """Names a job's objects; both functions must be pure.

    `replica` names the pod of a replica, and its service if it has one of its own; injective for each job. `job` names
    the service of a whole job.
    """

    replica: Callable[[TFJob, ReplicaType, int], str]
    job: Callable[[TFJob], str]


def _plain_replica(job: TFJob, replica_type: ReplicaType, index: int) -> str:
    return names.object_name(job.metadata.name, replica_type, index)


def _unique_replica(job: TFJob, replica_type: ReplicaType, index: int) -> str:
    return names.unique_object_name(job.metadata.name, replica_type, index, job.metadata.uid)


def _plain_job(job: TFJob) -> str:
    return job.metadata.name


def _unique_job(job: TFJob) -> str:
    return names.unique_name(job.metadata.name, job.metadata.uid)


PLAIN_NAMES = Naming(_plain_replica, _plain_job)
"""`{job}-{type}-{index}`, the Go operator's, and `{job}`."""

UNIQUE_NAMES = Naming(_unique_replica, _unique_job)
"""The same with `-{piece of the UID}`: no two jobs share a name, not even one after the other."""

NAMINGS = (PLAIN_NAMES, UNIQUE_NAMES)


def naming_in_use(job: TFJob, objects: Iterable[HasMetadata], preferred: Naming) -> Naming:
    """The naming that the job's pods and services have; `preferred` if there are none, or none that follow one."""
    of_whole_job = None
    for one in objects:
        name, replica = one.metadata.name, names.replica_of(one.metadata.labels)
        for naming in (preferred, *NAMINGS):
            if replica is not None and naming.replica(job, *replica) == name:
                return naming
            if replica is None and of_whole_job is None and naming.job(job) == name:
                of_whole_job = naming
    return of_whole_job or preferred


def is_service_of(job: TFJob, meta: ObjectMeta) -> bool:
    """Whether a service with the job's labels has the name that the operator gives the one that these labels mean.

    Whoever exposes a pod or a deployment by `kubectl expose` gives the new service its labels. Such a service is
    somebody's own, whatever it looks like.
    """
    if names.LABEL_TENSORBOARD in meta.labels:
        return meta.name == names.tensorboard_name(job.metadata.name)
    replica = names.replica_of(meta.labels)
    for naming in NAMINGS:
        name = naming.job(job) if replica is None else naming.replica(job, *replica)
        if name == meta.name:
            return True
    return False
