"""The status that follows from what the replicas do, and whether it is worth a write.

A status write costs the API server more than anything else we ask of it, so news that only matter to ourselves wait
for the next write that is due anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum

import msgspec

from tfoperator.api.indexes import format_indexes, parse_indexes
from tfoperator.api.names import replicas_selector
from tfoperator.api.v1.types import ConditionType, JobCondition, ReplicaStatus, ReplicaType, TFJob, TFJobStatus
from tfoperator.controller.conditions import find_condition, is_finished
from tfoperator.controller.job_state import is_ready
from tfoperator.controller.replicas import ReplicaGroup, Standing

__all__ = ["Stage", "build_status", "is_worth_writing", "phase_of", "readiness"]


class Stage(Enum):
    """What a job's status is written for."""

    ACTIVE = "the job goes on"
    SUSPENDED = "its pods are let go"
    SUCCEEDED = "it has ended well"
    FAILED = "it has ended badly"


def build_status(
    job: TFJob,
    groups: Sequence[ReplicaGroup],
    conditions: tuple[JobCondition, ...],
    stage: Stage,
    *,
    start_time: datetime | None,
    completion_time: datetime | None,
) -> TFJobStatus:
    """The complete status of the job; what it doesn't speak of (`lastReconcileTime`) is kept from the current one.

    Unless the job goes on nothing counts as active: what still runs is being stopped, or nobody waits for it. On
    success the Go operator counts it as succeeded, and so do we.
    """
    specs = job.spec.tf_replica_specs
    name = job.metadata.name
    replica_statuses = {str(g.type): _replica_status(g, stage, name) for g in groups if g.type in specs}
    ready = sum(status.ready for status in replica_statuses.values())
    total = sum(group.size for group in groups)
    return msgspec.structs.replace(
        job.status,
        phase=phase_of(conditions, replica_statuses.values()),
        ready=f"{ready}/{total}",
        restarts=sum(status.restarts for status in replica_statuses.values()),
        conditions=conditions,
        replica_statuses=replica_statuses,
        start_time=start_time,
        completion_time=completion_time,
        observed_generation=job.metadata.generation,
    )


def phase_of(conditions: Sequence[JobCondition], statuses: Iterable[ReplicaStatus]) -> str:
    """The job's state in one word: Pending, Running, Succeeded, Failed or Unknown.

    Running needs an active pod; a suspended job is Pending, for it waits to run. Unknown: the operator can't tell,
    because it can't make sense of the spec any more.
    """
    if is_finished(conditions):
        succeeded = find_condition(conditions, ConditionType.SUCCEEDED)
        return "Succeeded" if succeeded is not None and succeeded.status == "True" else "Failed"
    running = find_condition(conditions, ConditionType.RUNNING)
    if running is not None and running.status == "Unknown":
        return "Unknown"
    if running is not None and running.status == "True":
        return "Running"
    restarting = find_condition(conditions, ConditionType.RESTARTING)
    if restarting is not None and restarting.status == "True" and any(status.active for status in statuses):
        return "Running"
    return "Pending"


def readiness(groups: Iterable[ReplicaGroup]) -> tuple[int, int, int]:
    """How many replicas are ready, how many have succeeded, and how many there should be."""
    ready = completed = total = 0
    for group in groups:
        total += group.size
        for replica in group.replicas:
            if replica.standing is Standing.SUCCEEDED:
                completed += 1
            elif is_ready(replica):
                ready += 1
    return ready, completed, total


def is_worth_writing(old: TFJobStatus, new: TFJobStatus) -> bool:
    """Whether anything changed that others must see, or that must not be forgotten.

    `lastReconcileTime` alone is not worth it, nor are indexes that have started: forgetting one only means that a
    pod lost before anything else happened is replaced without being counted. An index that is let go of must be
    recorded, lest the pod's end be mistaken for a loss.
    """
    if old is new:
        return False
    for name in TFJobStatus.__struct_fields__:
        if name in ("last_reconcile_time", "replica_statuses"):
            continue
        if getattr(old, name) != getattr(new, name):
            return True
    if old.replica_statuses.keys() != new.replica_statuses.keys():
        return True
    return any(_differs(before, new.replica_statuses[key]) for key, before in old.replica_statuses.items())


def _differs(old: ReplicaStatus, new: ReplicaStatus) -> bool:
    if old == new:
        return False
    if not parse_indexes(old.started_indexes) <= parse_indexes(new.started_indexes):
        return True
    return old != msgspec.structs.replace(new, started_indexes=old.started_indexes)


def _replica_status(group: ReplicaGroup, stage: Stage, job_name: str) -> ReplicaStatus:
    active = ready = failed = succeeded = 0
    for replica in group.replicas:
        standing = replica.standing
        if standing is Standing.RUNNING:
            active += 1
            ready += is_ready(replica)
        elif standing is Standing.SUCCEEDED:
            succeeded += 1
        elif standing is Standing.FAILED or (
            standing is Standing.RESTARTING and replica.pod is not None and replica.pod.status.phase == "Failed"
        ):
            failed += 1
    if stage is not Stage.ACTIVE:
        succeeded += active if stage is Stage.SUCCEEDED else 0
        active = ready = 0
    counts = {str(index): group.counts[index] for index in sorted(group.counts) if group.counts[index] > 0}
    return ReplicaStatus(
        active=active,
        succeeded=succeeded,
        failed=failed if stage is not Stage.SUSPENDED else 0,
        ready=ready,
        restarts=sum(counts.values()),
        restart_counts=counts,
        completed_indexes=format_indexes(group.completed),
        failed_indexes=format_indexes(group.failed),
        started_indexes="" if stage is Stage.SUSPENDED else format_indexes(group.kept_started),
        selector=replicas_selector(job_name, group.type) if group.type is ReplicaType.WORKER else "",
    )
