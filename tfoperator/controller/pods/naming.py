"""Makes the names of a job's objects, and of the headless services by which its replicas find each other.

The names are either the names that the Go operator uses, or contain a part of the job's UID. A job has one service for
each replica, or one service for all replicas. Naming and network are both options of the operator. An administrator may
change the options while jobs run. But a job must keep its naming and its network. A recreated worker must find its
parameter servers under their existing names. TF_CONFIG names hosts that only one kind of service provides. The operator
must never create an object twice under two names. So only a job without objects gets the naming and the network of the
options. The field `status.network` records that the network is PerJob. Before the operator writes the first status, or
if an older CRD drops this field, the job's existing objects show the network.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tfoperator.api.replicas import names
from tfoperator.api.replicas.data_service import DataServiceMember, member_of, member_suffix
from tfoperator.api.replicas.templates import own_host_names
from tfoperator.api.v1.choices import Network, ReplicaType
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.objects import HasMetadata, ObjectMeta, Pod, Service

_NETWORKS = {network.value: network for network in Network}


class Naming(msgspec.Struct, frozen=True):
    """Names a job's objects as the Go operator does, or with unique names.

    If `unique` is set, a part of the job's UID is at the end of each name. Two jobs never have the same unique name,
    even if a user deletes a job and creates it again.
    """

    unique: bool

    def replica(self, job: TFJob, replica_type: ReplicaType, index: int) -> str:
        """Return the name of a replica's pod, `{job}-{type}-{index}`.

        If the replica has a service of its own, the service has the same name.
        """
        meta = job.metadata
        if self.unique:
            return names.unique_object_name(meta.name, replica_type, index, meta.uid)
        return names.object_name(meta.name, replica_type, index)

    def data_service(self, job: TFJob, member: DataServiceMember) -> str:
        """Return the name of the pod of a data service's member.

        If the member has a service of its own, the service has the same name.
        """
        name = f"{job.metadata.name}-{member_suffix(member)}"
        return names.with_uid(name, job.metadata.uid) if self.unique else name

    def job(self, job: TFJob) -> str:
        """Return the name of the one service for all replicas of a job: `{job}`."""
        return names.unique_name(job.metadata.name, job.metadata.uid) if self.unique else job.metadata.name


PLAIN_NAMES = Naming(unique=False)
UNIQUE_NAMES = Naming(unique=True)
NAMINGS = (PLAIN_NAMES, UNIQUE_NAMES)


def naming_in_use(job: TFJob, objects: Iterable[HasMetadata], preferred: Naming) -> Naming:
    """Return the naming of the job's pods and services.

    If there are none, or if their names follow no naming, return `preferred`.
    """
    of_whole_job = None
    for obj in objects:
        name, replica = obj.metadata.name, names.replica_of(obj.metadata.labels)
        for naming in (preferred, *NAMINGS):
            if replica is not None and naming.replica(job, *replica) == name:
                return naming
            if replica is None and of_whole_job is None and naming.job(job) == name:
                of_whole_job = naming
    return of_whole_job or preferred


def is_service_of(job: TFJob, meta: ObjectMeta) -> bool:
    """Return whether a service that has the job's labels has the name that the operator would give it.

    `kubectl expose` copies the labels of the exposed pod or deployment to the new service. Such a service belongs to a
    user, although it has the job's labels.
    """
    if names.LABEL_TENSORBOARD in meta.labels:
        return meta.name == names.tensorboard_name(job.metadata.name)
    if names.LABEL_DATA_SERVICE in meta.labels:
        member = member_of(meta.labels)
        return member is not None and any(naming.data_service(job, member) == meta.name for naming in NAMINGS)
    replica = names.replica_of(meta.labels)
    for naming in NAMINGS:
        name = naming.job(job) if replica is None else naming.replica(job, *replica)
        if name == meta.name:
            return True
    return False


def network_in_use(
    job: TFJob, pods: Iterable[Pod], services: Iterable[Service], service_name: str, preferred: Network
) -> Network:
    """Return the network (PerJob or PerReplica) that the job already uses, according to its status or its objects.

    For a job that uses no network yet, return the network in its spec, or else `preferred`. `service_name` is the name
    of the one service for all replicas. `services` must not include a service of a TensorBoard.
    """
    if job.status.network == Network.PER_JOB:
        return Network.PER_JOB
    for service in services:
        if names.replica_of(service.metadata.labels) is not None:
            return Network.PER_REPLICA
        if service.metadata.name == service_name:
            return Network.PER_JOB
    for pod in pods:
        replica = names.replica_of(pod.metadata.labels)
        if replica is None:
            continue
        if pod.spec.subdomain != service_name:
            return Network.PER_REPLICA
        if not _has_own_host_name(job, replica[0]):
            return Network.PER_JOB
    if job.status.start_time is not None:
        return Network.PER_REPLICA
    return _network_of_new(job, preferred)


def _network_of_new(job: TFJob, preferred: Network) -> Network:
    """Return the network of a new job.

    If the spec sets no network but its templates set host names, the result is PerReplica: PerJob would replace these
    host names.
    """
    own = _NETWORKS.get(job.spec.network or "")
    if own is not None:
        return own
    if preferred is Network.PER_JOB and any(_has_own_host_name(job, key) for key in job.spec.tf_replica_specs):
        return Network.PER_REPLICA
    return preferred


def _has_own_host_name(job: TFJob, replica_type: ReplicaType | str) -> bool:
    spec = job.spec.tf_replica_specs.get(replica_type)
    return spec is not None and bool(own_host_names(spec.template))
