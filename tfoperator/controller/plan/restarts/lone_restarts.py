"""Warns if a replica is restarted alone after another replica, which it may need, has ended. Pure.

A collective operation needs all of its workers when it starts. If a worker is restarted after another worker has ended,
the restarted worker waits for the ended worker for ever, and the job does not fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.proposal import Want, event
from tfoperator.controller.plan.replicas.replicas import Replica, ReplicaGroup
from tfoperator.controller.pods.manifests import CHIEF_TYPES, restarts_together

_TRAINING_TYPES = (*CHIEF_TYPES, ReplicaType.WORKER)
_MAX_NAMES = 3


def warn_of_lone_restarts(facts: Facts) -> Iterator[Want]:
    """Report replicas that are restarted after other replicas have ended; skip jobs with parameter servers.

    Such a replica gets a new pod, or its kubelet restarts its container. Parameter servers keep the result of the
    training, so their workers don't need each other.
    """
    groups = facts.groups
    names = [group.name_of(replica) for group in groups for replica in _newly_restarted(facts, group)]
    ended = [f"{group.type.lower()}-{index}" for group in groups for index in _ended(group)]
    has_servers = any(group.type is ReplicaType.PS and group.size > 0 for group in groups)
    if not names or not ended or has_servers or restarts_together(facts.job):
        return
    yield event(
        JobReason.RESTARTED_ALONE,
        f"{_some(names)} {'is' if len(names) == 1 else 'are'} restarted after {_some(ended)} had ended. Replicas "
        "that train together (MultiWorkerMirroredStrategy) wait for each other without end in this case: set "
        "spec.runPolicy.restartScope to Job, so that all replicas restart together.",
    )


def _newly_restarted(facts: Facts, group: ReplicaGroup) -> Iterator[Replica]:
    status = facts.job.status.replica_statuses.get(group.type)
    if group.type not in _TRAINING_TYPES or status is None:
        return
    for replica in group.replicas:
        if replica.restarts > status.restart_counts.get(str(replica.index), 0) and replica.index not in group.completed:
            yield replica


def _ended(group: ReplicaGroup) -> Sequence[int]:
    return sorted(group.completed) if group.type in _TRAINING_TYPES else ()


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
