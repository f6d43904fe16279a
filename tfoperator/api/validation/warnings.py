"""Warn of what a valid job will meet, and its author may not have meant: hosts too many to name, and queues. Pure.

How the operator is configured is not known here: hosts are counted as by default, with port 2222 and without a domain.
The operator itself counts them as they are, and says so in an event (`TooManyReplicas`). Of queues, it is what Kueue
makes of a job.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.api.host_lists import HostList, too_long
from tfoperator.api.names import DEFAULT_PORT, object_name, parse_replica_type
from tfoperator.api.problems import Problem, member
from tfoperator.api.queues import is_multikueue, not_carried, queue_name, uncounted_types
from tfoperator.api.templates import is_absent
from tfoperator.api.v1.types import Network, ReplicaType, TFJob
from tfoperator.api.validation.limits import MAX_REPLICAS, warning

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


_REPLICAS = "spec.tfReplicaSpecs"


def validate_queue(job: TFJob) -> Iterator[Problem]:
    """Warnings about a job with a queue's label or for MultiKueue; nothing for any other."""
    yield from validate_multikueue(job)
    queue = queue_name(job.metadata.labels)
    if not queue:
        return
    specs = job.spec.tf_replica_specs
    for key in uncounted_types(specs):
        yield warning(
            f"{_REPLICAS}[{key}]",
            f"is not counted by queue {queue}, for Kueue knows {parse_replica_type(key)} only: these pods run without "
            "quota",
        )
    for key, replica in specs.items():
        if key == ReplicaType.PS and replica is not None and is_absent(replica.template):
            yield warning(
                member(f"{_REPLICAS}[{key}]", "template"),
                f"is not set, and Kueue can't count pods that it doesn't see: the job stays in queue {queue}",
            )


def validate_multikueue(job: TFJob) -> Iterator[Problem]:
    """Warnings about what a job asks for that MultiKueue doesn't take along; nothing for any job that isn't its."""
    if is_multikueue(job):
        for field in not_carried(job):
            yield warning(field, "is not copied to the cluster where MultiKueue has the job run")
