"""Says what Kueue makes of a job that is in one of its queues, where that is not what the job's author meant. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.api.names import parse_replica_type
from tfoperator.api.problems import Problem, member
from tfoperator.api.queues import is_multikueue, not_carried, queue_name, uncounted_types
from tfoperator.api.templates import is_absent
from tfoperator.api.v1.types import ReplicaType, TFJob
from tfoperator.api.validation.checks import warning

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
