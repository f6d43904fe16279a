"""Says of a job that has more replicas than one process can be told of. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.api.names import DEFAULT_PORT, object_name, parse_replica_type
from tfoperator.api.problems import Problem
from tfoperator.api.v1.types import Network, TFJob, TFJobSpec
from tfoperator.api.validation.checks import warning
from tfoperator.api.validation.limits import MAX_REPLICAS, MAX_VARIABLE_LENGTH

_LONGEST_HOST = 210
"""Characters: a name, its service and its namespace have at most 63 each."""

_TASK_AND_TYPES = 120
"""Characters of TF_CONFIG beside its hosts, rounded up."""


def validate_cluster_size(job: TFJob) -> Iterator[Problem]:
    """A warning about a list of hosts that no program can be started with; its length is about right."""
    if _most_listed(job.spec, dict.fromkeys(job.spec.tf_replica_specs, _LONGEST_HOST)) <= MAX_VARIABLE_LENGTH:
        return
    within = f".{job.metadata.namespace or 'default'}.svc:{DEFAULT_PORT}"
    if job.spec.network == Network.PER_JOB:
        within = f".{job.metadata.name}{within}"
    kinds = {key: parse_replica_type(key) for key in job.spec.tf_replica_specs}
    hosts = {key: len(object_name(job.metadata.name, kind, 0)[:-1] + within) for key, kind in kinds.items() if kind}
    length = _most_listed(job.spec, hosts)
    if length > MAX_VARIABLE_LENGTH:
        dynamic = bool(job.spec.enable_dynamic_worker)
        advice = "clusterArguments: false lists no hosts" if dynamic else "enableDynamicWorker: true lists only a few"
        yield warning(
            "spec.tfReplicaSpecs",
            f"has so many replicas that the list of their hosts has about {length:,} characters, and Linux starts no "
            f"program with more than {MAX_VARIABLE_LENGTH:,} in one variable or argument; {advice}",
        )


def _most_listed(spec: TFJobSpec, host_lengths: dict[str, int]) -> int:
    """Characters of the longest list of hosts, which have so many without their index, by replica type."""
    lists = [
        _list_length(min(replica.desired, MAX_REPLICAS), host_lengths[key])
        for key, replica in spec.tf_replica_specs.items()
        if replica is not None and key in host_lengths
    ]
    in_tf_config = 0 if spec.enable_dynamic_worker else sum(lists) + _TASK_AND_TYPES
    in_arguments = max(lists, default=0) if spec.cluster_arguments else 0
    return max(in_tf_config, in_arguments)


def _list_length(count: int, host_length: int) -> int:
    """Characters of so many hosts, quoted and with commas between them."""
    digits = sum(max(count - start, 0) for start in (0, 10, 100, 1000))
    return count * (host_length + len('"",')) + digits
