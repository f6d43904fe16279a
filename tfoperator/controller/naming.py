"""How a replica's pod and service are called: as the Go operator calls them, or with a piece of the job's UID.

The choice is an operator's option, which may change while jobs run. Their names must not: a worker that is made anew
has to find its parameter servers under the names that they have, and nothing may be made twice under two names. So a
job keeps the naming of what it has, and only one that has nothing gets the option's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tfoperator.api import names
from tfoperator.api.v1.types import ReplicaType, TFJob
from tfoperator.kube.objects import HasMetadata

__all__ = ["NAMINGS", "ObjectName", "naming_in_use", "peer_object_name", "unique_object_name"]

ObjectName = Callable[[TFJob, ReplicaType, int], str]
"""Names the pod and the service (they share one name) of a replica; must be pure and injective per job."""


def peer_object_name(job: TFJob, replica_type: ReplicaType, index: int) -> str:
    """`{job}-{type}-{index}`, the Go operator's."""
    return names.object_name(job.metadata.name, replica_type, index)


def unique_object_name(job: TFJob, replica_type: ReplicaType, index: int) -> str:
    """`{job}-{type}-{index}-{piece of the UID}`: no two jobs share a name, not even one after the other."""
    return names.unique_object_name(job.metadata.name, replica_type, index, job.metadata.uid)


NAMINGS: tuple[ObjectName, ...] = (peer_object_name, unique_object_name)


def naming_in_use(job: TFJob, objects: Iterable[HasMetadata], preferred: ObjectName) -> ObjectName:
    """The naming that the job's pods and services have; `preferred` if there are none, or none that follow one."""
    for one in objects:
        replica = names.replica_of(one.metadata.labels)
        if replica is None:
            continue
        for naming in (preferred, *NAMINGS):
            if naming(job, *replica) == one.metadata.name:
                return naming
    return preferred
