"""By which headless services a job's replicas find each other: one for each of them, or one for the whole job.

The job says, else an operator's option, which may change while jobs run. Their pods must not: TF_CONFIG names hosts
that only one of the two makes. So a job keeps what it was started with. PerJob is recorded in its status; before the
first status is written, or where an older CRD drops that field, the job's objects tell.
"""

from __future__ import annotations

from collections.abc import Iterable

from tfoperator.api.names import replica_of
from tfoperator.api.templates import own_host_names
from tfoperator.api.v1.types import Network, ReplicaType, TFJob
from tfoperator.kube.objects import Pod, Service

_NETWORKS = {network.value: network for network in Network}


def network_in_use(
    job: TFJob, pods: Iterable[Pod], services: Iterable[Service], service_name: str, preferred: Network
) -> Network:
    """The network that the job was started with; what it asks for, else `preferred`, if it was not started.

    `service_name` is what the service of the whole job is called. Services that belong to something else of the job are
    not among `services`.
    """
    if job.status.network == Network.PER_JOB:
        return Network.PER_JOB
    for service in services:
        if replica_of(service.metadata.labels) is not None:
            return Network.PER_REPLICA
        if service.metadata.name == service_name:
            return Network.PER_JOB
    for pod in pods:
        replica = replica_of(pod.metadata.labels)
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
    """A job that says nothing itself keeps the host names of its templates, which PerJob would replace."""
    own = _NETWORKS.get(job.spec.network or "")
    if own is not None:
        return own
    if preferred is Network.PER_JOB and any(_has_own_host_name(job, key) for key in job.spec.tf_replica_specs):
        return Network.PER_REPLICA
    return preferred


def _has_own_host_name(job: TFJob, replica_type: ReplicaType | str) -> bool:
    spec = job.spec.tf_replica_specs.get(replica_type)
    return spec is not None and bool(own_host_names(spec.template))
