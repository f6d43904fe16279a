"""Which jobs wait in a queue of Kueue, and what Kueue can't count of them. Pure.

Kueue finds its jobs by a label, suspends them until there is room (`runPolicy.suspend`), and keeps a Workload for each
that says why it waits. It reads `tfReplicaSpecs` by exact keys, where we read them in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfoperator.api.names import parse_replica_type

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""On a job: the LocalQueue that it waits in."""

JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
"""On a Workload: the UID of its job."""

MANAGED_BY_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""In `runPolicy.managedBy`: Kueue runs the job on another cluster, and no operator of this one looks after it."""


def queue_name(labels: Mapping[str, str]) -> str:
    """The LocalQueue that a job with these labels is in; empty for a job without a queue."""
    return labels.get(QUEUE_LABEL, "")


def uncounted_types(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys of `tfReplicaSpecs` that Kueue doesn't know, since their case is not the types' own: `worker`, `ps`.

    Their pods run, and no quota counts them.
    """
    return tuple(key for key in keys if (known := parse_replica_type(key)) is not None and key != known)
