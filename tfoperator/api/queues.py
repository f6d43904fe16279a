"""Which jobs wait in a queue of Kueue, and what Kueue can't count of them. Pure.

Kueue finds its jobs by a label, suspends them until there is room (`runPolicy.suspend`), and keeps a Workload for each
that says why it waits. It reads `tfReplicaSpecs` by exact keys, where we read them in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from tfoperator.api.names import parse_replica_type
from tfoperator.api.v1.types import OnStall, RestartScope, RunPolicy, TFJob, TFJobSpec

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""On a job: the LocalQueue that it waits in."""

JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
"""On a Workload: the UID of its job."""

MANAGED_BY_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""In `runPolicy.managedBy`: Kueue runs the job on another cluster, and no operator of this one looks after it."""


MULTIKUEUE_ORIGIN_LABEL = "kueue.x-k8s.io/multikueue-origin"
"""On a job that MultiKueue has brought to this cluster: from which one. MultiKueue deletes the job after its end."""

_NOT_CARRIED: Mapping[type, Collection[str]] = {
    TFJobSpec: (
        "min_succeeded_workers", "max_failed_workers", "cluster_arguments", "evaluator_in_cluster", "network",
        "checkpoint", "tensor_board", "progress",
    ),
    RunPolicy: ("restart_scope", "progress_deadline_seconds", "on_stall"),
}  # fmt: skip
"""Fields of ours that the Go operator's types lack, by which MultiKueue copies a job."""

_AS_UNSET = (None, False, RestartScope.REPLICA, OnStall.REPORT)
"""Values that mean the same as none."""


def is_multikueue(job: TFJob) -> bool:
    """Whether the job runs on another cluster, and no operator of this one looks after it."""
    policy = job.spec.run_policy
    return policy is not None and policy.managed_by == MANAGED_BY_MULTIKUEUE


def not_carried(job: TFJob) -> tuple[str, ...]:
    """What the job asks for that its copy on another cluster would lack: `spec.checkpoint`, ...

    MultiKueue knows the Go operator's fields only, and leaves out what it doesn't know.
    """
    policy = job.spec.run_policy or RunPolicy()
    return (*_fields_set(job.spec, "spec"), *_fields_set(policy, "spec.runPolicy"))


def _fields_set(struct: TFJobSpec | RunPolicy, path: str) -> Iterator[str]:
    names = _NOT_CARRIED[type(struct)]
    for field in msgspec.structs.fields(struct):
        if field.name in names and getattr(struct, field.name) not in _AS_UNSET:
            yield f"{path}.{field.encode_name}"


def queue_name(labels: Mapping[str, str]) -> str:
    """The LocalQueue that a job with these labels is in; empty for a job without a queue."""
    return labels.get(QUEUE_LABEL, "")


def uncounted_types(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys of `tfReplicaSpecs` that Kueue doesn't know, since their case is not the types' own: `worker`, `ps`.

    Their pods run, and no quota counts them.
    """
    return tuple(key for key in keys if (known := parse_replica_type(key)) is not None and key != known)
