"""Turns pods into replicas: the state of each index of each replica type, and its effect on the counts.

The one subtle case is a pod that goes away. `startedIndexes` in the status remembers for which indexes the loss of the
pod would be a loss to the job: an index enters when its pod is seen and leaves when it is completed or when the
operator itself gives up the pod (restart, scale-down, suspension), in a status write that precedes the deletion. So a
pod of a started index that terminates or is gone was taken from us; we removed any other one ourselves.

Ended replicas are remembered without their pods: completed indexes for ever, failed ones as long as the type has them,
so that scaling a worker away and back gives it another try.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

import msgspec

from tfoperator.api.names import MAX_RESTARTS, replica_of
from tfoperator.api.replica_pods import ENDED_PHASES, outlives_training, replica_phase
from tfoperator.api.templates import restarts_in_pod
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import ReplicaStatus, find_condition
from tfoperator.api.v1.types import ReplicaType, TFJob
from tfoperator.base.clock import epoch_seconds, seconds_between
from tfoperator.controller.plan.disruption_causes import DELETED, deletion_of, disruption_of, kubelet_ended
from tfoperator.controller.plan.in_place import (
    crash_before,
    judge_running,
    note_returns,
    restarts_by_kubelet,
    was_left_alone,
)
from tfoperator.controller.plan.observed import PlanOptions
from tfoperator.controller.plan.replicas import (
    ENDED_STATES,
    GONE,
    Replica,
    ReplicaGroup,
    ReplicaState,
    has_record,
    restarts_so_far,
)
from tfoperator.controller.plan.restart import (
    Ending,
    disruptions_before,
    ended_by_deletion,
    ending_of,
    is_permanent,
    job_restarts_before,
    job_restarts_so_far,
    restart_wait,
)
from tfoperator.controller.pods.manifests import restarts_in_place
from tfoperator.kube.objects import Pod

_TYPE_ORDER = (ReplicaType.CHIEF, ReplicaType.EVALUATOR, ReplicaType.MASTER, ReplicaType.PS, ReplicaType.WORKER)
"""The order in which the Go operator looks at the types; the first failure it meets names the job's failure."""

_PHASE_RANK = {"Succeeded": 4, "Running": 3, "Pending": 2, "": 1}
_NO_STATUS = ReplicaStatus()


def observe_replicas(job: TFJob, pods: Sequence[Pod], now: datetime, options: PlanOptions) -> list[ReplicaGroup]:
    """Return the job's replicas by type, in a fixed order.

    A type that the spec no longer has, but whose pods exist, or whose restarts or completions are recorded, appears
    with size 0. A pod whose labels name no replica is left out: it counts for nothing, and is deleted with the job.
    """
    by_type: defaultdict[ReplicaType, defaultdict[int, list[Pod]]] = defaultdict(lambda: defaultdict(list))
    for pod in pods:
        replica = replica_of(pod.metadata.labels)
        if replica is not None:
            by_type[replica[0]][replica[1]].append(pod)
    groups = []
    specs = job.spec.tf_replica_specs
    job_restarts = job_restarts_so_far(job, pods)
    in_place = restarts_in_place(job)
    restarting = find_condition(job.status.conditions, ConditionType.RESTARTING)
    since = restarting.last_transition_time if restarting is not None and restarting.status == "True" else None
    for replica_type in _TYPE_ORDER:
        old = job.status.replica_statuses.get(replica_type) or _NO_STATUS
        if replica_type in specs or replica_type in by_type or has_record(old):
            if job_restarts > job.status.job_restarts:
                # The status is older than the last restart of all replicas: it does not describe today's pods.
                old = msgspec.structs.replace(old, started_indexes="", completed_indexes="")
            group = ReplicaGroup(replica_type, specs.get(replica_type), old, job_restarts)
            group.restarting_since = since
            group.in_place = in_place and restarts_by_kubelet(group.policy, options)
            _fill(group, by_type.get(replica_type) or {}, now, options)
            group.add_up()
            groups.append(group)
    return groups


def _fill(group: ReplicaGroup, by_index: dict[int, list[Pod]], now: datetime, options: PlanOptions) -> None:
    for index in range(group.size):
        pods = by_index.get(index)
        if not pods:
            replica = _without_pod(group, index)
            if replica.newly_restarting:
                group.counts[index] = replica.restarts
                group.disruption_counts[index] = group.disruption_counts.get(index, 0) + 1
                group.has_new_disruption = True
            group.replicas.append(replica)
            continue
        if len(pods) > 1:
            pods.sort(key=_precedence)
            group.duplicates.extend((index, pod) for pod in pods[1:])
        replica = _with_pod(group, index, pods[0], now, options)
        if group.in_place:
            note_returns(group, replica, pods[0])
        _note_disruptions(group, replica, pods[0])
        group.counts[index] = replica.restarts
        if replica.state in ENDED_STATES and pods[0].status.phase == "Running" and outlives_training(pods[0]):
            group.outliving.append(pods[0])
        group.replicas.append(replica)
    for index in sorted(by_index, reverse=True):
        if index < group.size:
            break
        for pod in by_index[index]:
            group.surplus.append((index, pod))
            # Perhaps it was never observed while its index was wanted; then only the pod shows that it is a restart.
            so_far = restarts_so_far(pod)
            if so_far > group.counts.get(index, 0):
                group.counts[index] = so_far
            if disruptions_before(pod) > group.disruption_counts.get(index, 0):
                group.disruption_counts[index] = disruptions_before(pod)


def _note_disruptions(group: ReplicaGroup, replica: Replica, pod: Pod) -> None:
    """Note how many of the replica's restarts, those that are new included, followed on disruptions."""
    index = replica.index
    noted, so_far = group.counts.get(index, 0), restarts_so_far(pod)
    if so_far > noted and not replica.newly_restarting:
        replica.disruption = crash_before(pod)
    known = max(group.disruption_counts.get(index, 0), disruptions_before(pod))
    if replica.disruption and (replica.newly_restarting or so_far > noted):
        known += 1
    # More than there were restarts is not true.
    known = min(known, replica.restarts)
    group.has_new_disruption |= replica.is_newly_disrupted
    if known:
        group.disruption_counts[index] = known


def _without_pod(group: ReplicaGroup, index: int) -> Replica:
    restarts = group.counts.get(index, 0)
    if index in group.completed:
        return Replica(index, None, ReplicaState.SUCCEEDED, restarts, restarts)
    if index in group.failed_before:
        return Replica(index, None, ReplicaState.FAILED, restarts, restarts)
    if index not in group.started_before:
        return Replica(index, None, ReplicaState.MISSING, restarts, restarts)
    restarts = min(restarts, MAX_RESTARTS - 1)
    lost = Replica(index, None, ReplicaState.VANISHED, restarts + 1, restarts, GONE)
    lost.newly_restarting, lost.disruption = True, DELETED
    return lost


def _with_pod(group: ReplicaGroup, index: int, pod: Pod, now: datetime, options: PlanOptions) -> Replica:
    noted = group.counts.get(index, 0)
    so_far = restarts_so_far(pod)
    counted = noted if noted > so_far else so_far
    group.may_count_in_place |= so_far > noted
    replica = Replica(index, pod, ReplicaState.PENDING, counted, counted)
    if index in group.completed:
        replica.state = ReplicaState.SUCCEEDED
        return replica
    phase = pod.status.phase if len(pod.status.container_statuses) < 2 else _phase(group, pod)
    if index in group.failed_before:
        _fail(replica, ending_of(pod) if phase == "Failed" else None)
        return replica
    if group.job_restarts and job_restarts_before(pod) < group.job_restarts:
        replica.state = ReplicaState.LEAVING
        return replica
    if pod.metadata.deletion_timestamp is not None and (
        index not in group.started_before or phase not in ENDED_PHASES or ended_by_deletion(pod)
    ):
        _judge_terminating(group, replica, pod, so_far, noted)
        return replica
    if phase in ("Failed", "Unknown"):
        _judge_failed(group, replica, pod, so_far, noted)
        if replica.state is ReplicaState.RESTARTING and pod.metadata.deletion_timestamp is None:
            # Its own failures make it wait; what disruptions cost is decided for the job (`disruptions`).
            failures = max(so_far - group.disruption_counts.get(index, 0), 0)
            replica.wait = 0.0 if replica.disruption else restart_wait(pod, failures + 1, now, options)
        return replica
    if phase == "Succeeded" and (disruption := kubelet_ended(pod)):
        replica.restart(so_far, noted, disruption, disruption=disruption)
        replica.wait = 0.0 if pod.metadata.deletion_timestamp is None else None
        return replica
    if phase == "Succeeded":
        replica.state = ReplicaState.SUCCEEDED
        group.completed.add(index)
        return replica
    if phase == "Running" and group.in_place and judge_running(replica, pod, so_far, noted, now):
        group.may_count_in_place = True
        return replica
    if phase == "Running" and noted > so_far and index not in group.started_before and _is_of_before(pod, group):
        # Its restart was decided and recorded, and its pod still exists: the deletion is yet to come.
        replica.restart(so_far, noted, "is being started again")
        replica.wait = 0.0
        return replica
    if phase == "Running":
        replica.state = ReplicaState.RUNNING
        replica.ready = _is_ready(pod)
    group.kept_started.add(index)
    return replica


def _phase(group: ReplicaGroup, pod: Pod) -> str:
    """The phase of the replica: that of the pod, unless the container `tensorflow` alone has ended for good."""
    phase = replica_phase(pod)
    if phase != pod.status.phase == "Running" and group.spec is not None and restarts_in_pod(group.spec.template):
        return pod.status.phase
    return phase


def _is_of_before(pod: Pod, group: ReplicaGroup) -> bool:
    """Whether a pod is older than the restarts that are under way.

    A newer pod is their result, even without the annotations, which a user may have removed.
    """
    created, since = pod.metadata.creation_timestamp, group.restarting_since
    return created is not None and since is not None and seconds_between(created, since) >= 0


def _is_ready(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return all(container.ready for container in pod.status.container_statuses)


def _judge_terminating(group: ReplicaGroup, replica: Replica, pod: Pod, so_far: int, noted: int) -> None:
    replica.state = ReplicaState.LEAVING
    if replica.index in group.started_before or noted > so_far:
        taken = replica.index in group.started_before
        replica.restart(so_far, noted, "its pod is being deleted", disruption=deletion_of(pod) if taken else "")
    else:
        replica.lost_early = group.has_new_disruption = True


def _judge_failed(group: ReplicaGroup, replica: Replica, pod: Pod, so_far: int, noted: int) -> None:
    ending = ending_of(pod)
    if is_permanent(ending, group.policy):
        _fail(replica, ending)
    else:
        replica.exit_code = ending.exit_code
        if noted > so_far and not pod.status.container_statuses and replica.index in group.started_before:
            # A kubelet that evicts may tell of no container any more. What is noted are then restarts in place: its end
            # would have been noted together with the loss of its start.
            so_far = min(noted, MAX_RESTARTS - 1)
        disruption = disruption_of(pod, ending) if ending.is_disruption else ""
        replica.restart(so_far, noted, str(ending), disruption=disruption)
        replica.unaided = group.in_place and was_left_alone(pod, ending)


def rests_on_its_pod(replica: Replica) -> bool:
    """Return whether a restart is new only if the pod is the replica's last one, which a lagging cache can't tell."""
    return replica.newly_restarting and replica.pod is not None and replica.counted > restarts_so_far(replica.pod)


def _fail(replica: Replica, ending: Ending | None) -> None:
    replica.state = ReplicaState.FAILED
    if ending is not None:
        replica.exit_code = ending.exit_code
        replica.cause = str(ending)


def _precedence(pod: Pod) -> tuple[bool, int, float, str, str]:
    """Return the sort key: of several pods for one index the first is kept, the most advanced, then the oldest."""
    return (
        pod.metadata.deletion_timestamp is not None,
        -_PHASE_RANK.get(replica_phase(pod), 0),
        epoch_seconds(pod.metadata.creation_timestamp),
        pod.metadata.name,
        pod.metadata.uid,
    )
