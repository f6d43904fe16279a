"""Says of a job that it has more replicas than one process can be told of. Pure.

It can't know how the operator is configured: hosts are counted as by default, with port 2222 and without a domain. The
operator itself counts them as they are, and tells in an event (`TooManyReplicas`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.api.host_lists import HostList, too_long
from tfoperator.api.names import DEFAULT_PORT, object_name, parse_replica_type
from tfoperator.api.problems import Problem
from tfoperator.api.v1.types import Network, TFJob
from tfoperator.api.validation.checks import warning
from tfoperator.api.validation.limits import MAX_REPLICAS

_FEW = 500
"""Replicas that can always be told of: a host has at most 210 characters, three names of 63 and what is between."""


def validate_cluster_size(job: TFJob, name: str) -> Iterator[Problem]:
    """A warning about a list of hosts that no program can be started with; its length is about right.

    `name` is that of the job, or as long as the one that it will get.
    """
    spec = job.spec
    counts = {
        replica_type: min(max(replica.desired, 0), MAX_REPLICAS)
        for key, replica in spec.tf_replica_specs.items()
        if replica is not None and (replica_type := parse_replica_type(key)) is not None
    }
    if sum(counts.values()) <= _FEW:
        return
    within = f".{job.metadata.namespace or 'default'}.svc:{DEFAULT_PORT}"
    if spec.network == Network.PER_JOB:
        within = f".{name}{within}"
    hosts = {
        replica_type: HostList(count, count * len(object_name(name, replica_type, 0)[:-1] + within) + _digits(count))
        for replica_type, count in counts.items()
        if count
    }
    message = too_long(hosts, dynamic=bool(spec.enable_dynamic_worker), arguments=bool(spec.cluster_arguments))
    if message:
        yield warning("spec.tfReplicaSpecs", message)


def _digits(count: int) -> int:
    """Of all indexes together."""
    return count + sum(max(count - start, 0) for start in (10, 100, 1000))
