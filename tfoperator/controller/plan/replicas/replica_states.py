"""Turns pods into replicas: the state of each index of each replica type, and its effect on the counts in the status.

The only difficult case is a pod that is being deleted or is gone. `startedIndexes` in the status records for which
indexes the loss of the pod is a loss for the job. An index is added when its pod is observed. The index is removed when
its replica has completed, or when the operator itself removes the pod (restart, scale-down, suspension), in a status
write before the deletion. So if the pod of an index in `startedIndexes` is being deleted or is gone, the cause is a
user or another program. If the index is not in `startedIndexes`, the operator itself removed the pod.

Ended replicas are recorded, and do not need their pods any more: completed indexes for ever, and failed indexes only
while the size of the type includes them. So if a failed worker is removed by scaling down and added again, it gets a
new attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from tfoperator.api.replicas.names import MAX_RESTARTS, is_probe, replica_of
from tfoperator.api.replicas.replica_pods import ENDED_PHASES, outlives_training, replica_phase
from tfoperator.api.replicas.templates import restarts_in_pod
from tfoperator.api.v1.choices import ReplicaType, RestartPolicy
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import ReplicaStatus, find_condition
from tfoperator.api.v1.types import ReplicaSpec, TFJob
from tfoperator.base.clock import epoch_seconds, seconds_between
from tfoperator.controller.plan.pod_ends.disruption_causes import DELETED, deletion_of, disruption_of, kubelet_ended
from tfoperator.controller.plan.pod_ends.restart import (
    Ending,
    disruptions_before,
    ended_by_deletion,
    ending_of,
    is_permanent,
    job_restarts_before,
    job_restarts_so_far,
    restart_wait,
)
from tfoperator.controller.plan.replicas.in_place import (
    awaiting_kubelet,
    crash_before,
    restarts_by_kubelet,
    returned,
    was_left_alone,
)
from tfoperator.controller.plan.replicas.replicas import (
    ENDED_STATES,
    GONE,
    NOTHING_BESIDE,
    Beside,
    Record,
    Replica,
    ReplicaGroup,
    ReplicaState,
    counts_of,
    has_record,
    record_of,
    restarting,
    restarts_so_far,
)
from tfoperator.controller.plan.values.observed import PlanOptions
from tfoperator.controller.pods.manifests import desired_policy, desired_size, restarts_in_place
from tfoperator.kube.views.objects import Pod

_TYPE_ORDER = (ReplicaType.CHIEF, ReplicaType.EVALUATOR, ReplicaType.MASTER, ReplicaType.PS, ReplicaType.WORKER)
"""The order in which the Go operator goes through the types: the first failure that it finds is the failure
of the job.
"""

_PHASE_RANK = {"Succeeded": 4, "Running": 3, "Pending": 2, "": 1}
_NO_STATUS = ReplicaStatus()


def observe_replicas(job: TFJob, pods: Sequence[Pod], now: datetime, options: PlanOptions) -> tuple[ReplicaGroup, ...]:
    """Return the job's replicas by type, in a fixed order.

    If the spec no longer has a type, but pods of the type exist, or its restarts or completions are recorded, the type
    appears with size 0. A pod whose labels name no replica is ignored, and is deleted with the job.
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
    condition = find_condition(job.status.conditions, ConditionType.RESTARTING)
    since = condition.last_transition_time if condition is not None and condition.status == "True" else None
    for replica_type in _TYPE_ORDER:
        old = job.status.replica_statuses.get(replica_type) or _NO_STATUS
        if replica_type in specs or replica_type in by_type or has_record(old):
            if job_restarts > job.status.job_restarts:
                # The status is older than the last restart of all replicas, so its indexes describe pods that were
                # deleted.
                old = msgspec.structs.replace(old, started_indexes="", completed_indexes="")
            spec = specs.get(replica_type)
            by_kubelet = in_place and restarts_by_kubelet(desired_policy(spec), options)
            record = record_of(old, job_restarts, since, in_place=by_kubelet)
            of = _Type(spec, desired_policy(spec), record, now, options)
            groups.append(_group(replica_type, of, by_type.get(replica_type) or {}))
    return tuple(groups)


class _Type(msgspec.Struct, frozen=True):
    """All data, except the pod, that determines the state of a replica.

    The data are the same for all replicas of a type.
    """

    spec: ReplicaSpec | None
    policy: RestartPolicy
    record: Record
    now: datetime
    options: PlanOptions


def _group(replica_type: ReplicaType, of: _Type, by_index: Mapping[int, Sequence[Pod]]) -> ReplicaGroup:
    record, size = of.record, desired_size(of.spec)
    replicas: list[Replica] = []
    duplicates: list[tuple[int, Pod]] = []
    outliving: list[Pod] = []
    has_new_disruption = may_count_in_place = False
    for index in range(size):
        pods = by_index.get(index)
        if not pods:
            replica = _without_pod(record, index)
        else:
            if len(pods) > 1:
                pods = sorted(pods, key=_precedence)
                duplicates += ((index, pod) for pod in pods[1:])
            first = pods[0]
            so_far, noted = restarts_so_far(first), record.counts.get(index, 0)
            replica = _with_pod(of, index, first, so_far, noted)
            if record.in_place:
                replica = returned(replica, first, so_far, noted)
            replica = _with_disruptions(replica, first, so_far, noted, record.disruptions.get(index, 0))
            may_count_in_place |= so_far > noted or (replica.by_kubelet and record.in_place)
            if replica.state in ENDED_STATES and first.status.phase == "Running" and outlives_training(first):
                outliving.append(first)
        has_new_disruption |= replica.is_newly_disrupted or replica.lost_early
        replicas.append(replica)
    beyond = sorted((index for index in by_index if index >= size), reverse=True)
    surplus = tuple((index, pod) for index in beyond for pod in by_index[index])
    noted_restarts, noted_disruptions = _with_surplus(record, surplus)
    counts = counts_of(replicas, record, record.completed, noted_restarts, noted_disruptions)
    has_others = surplus or duplicates or outliving
    return ReplicaGroup(
        type=replica_type,
        spec=of.spec,
        size=size,
        policy=of.policy,
        record=record,
        replicas=tuple(replicas),
        beside=Beside(surplus, tuple(duplicates), tuple(outliving)) if has_others else NOTHING_BESIDE,
        has_new_disruption=has_new_disruption,
        may_count_in_place=may_count_in_place,
        **counts,
    )


def _with_surplus(record: Record, surplus: Sequence[tuple[int, Pod]]) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Return the restarts and disruptions by index.

    Pods with an index beyond the size may show larger numbers than the record. Such a pod may never have been observed
    while its index was wanted; then only the pod itself shows the restart.
    """
    if not surplus:
        return record.counts, record.disruptions
    restarts, disruptions = dict(record.counts), dict(record.disruptions)
    for index, pod in surplus:
        so_far, disrupted = restarts_so_far(pod), disruptions_before(pod)
        if so_far > restarts.get(index, 0):
            restarts[index] = so_far
        if disrupted > disruptions.get(index, 0):
            disruptions[index] = disrupted
    return restarts, disruptions


def _with_disruptions(replica: Replica, pod: Pod, so_far: int, noted: int, recorded: int) -> Replica:
    """Return the replica with the number of its restarts caused by disruptions; new restarts are included.

    `so_far` is the number of restarts that the pod shows. The status has recorded `noted` restarts; `recorded` of them
    were caused by disruptions.
    """
    disruption = replica.disruption
    if so_far > noted and not replica.newly_restarting:
        disruption = crash_before(pod)
    count = max(recorded, disruptions_before(pod))
    if disruption and (replica.newly_restarting or so_far > noted):
        count += 1
    # There can't be more disruptions than restarts.
    count = min(count, replica.restarts)
    if not count and disruption == replica.disruption:
        return replica
    return msgspec.structs.replace(replica, disruption=disruption, disruptions=count)


def _without_pod(record: Record, index: int) -> Replica:
    restarts, disruptions = record.counts.get(index, 0), record.disruptions.get(index, 0)
    if index in record.completed:
        return Replica(index, None, ReplicaState.SUCCEEDED, restarts, restarts, disruptions)
    if index in record.failed:
        return Replica(index, None, ReplicaState.FAILED, restarts, restarts, disruptions)
    if index not in record.started:
        return Replica(index, None, ReplicaState.MISSING, restarts, restarts, disruptions)
    restarts = min(restarts, MAX_RESTARTS - 1)
    return Replica(
        index,
        None,
        ReplicaState.VANISHED,
        restarts + 1,
        restarts,
        disruptions + 1,
        GONE,
        newly_restarting=True,
        disruption=DELETED,
    )


def _with_pod(of: _Type, index: int, pod: Pod, so_far: int, noted: int) -> Replica:
    """Return the replica of a pod that shows `so_far` restarts, of which the status has recorded `noted`."""
    record = of.record
    counted = noted if noted > so_far else so_far
    if index in record.completed:
        return Replica(index, pod, ReplicaState.SUCCEEDED, counted, counted)
    phase = pod.status.phase if len(pod.status.container_statuses) < 2 else _phase(of.spec, pod)
    replica = Replica(index, pod, ReplicaState.LEAVING, counted, counted)
    if index in record.failed:
        return _failed(replica, ending_of(pod) if phase == "Failed" else None)
    if is_probe(pod.metadata.annotations) or (record.job_restarts and job_restarts_before(pod) < record.job_restarts):
        return replica
    is_terminating = pod.metadata.deletion_timestamp is not None
    if is_terminating and (index not in record.started or phase not in ENDED_PHASES or ended_by_deletion(pod)):
        return _terminating(record, replica, pod, so_far, noted)
    if phase in ("Failed", "Unknown"):
        return _ended_badly(of, replica, pod, so_far, noted)
    if phase == "Succeeded":
        disruption = kubelet_ended(pod)
        if not disruption:
            return msgspec.structs.replace(replica, state=ReplicaState.SUCCEEDED)
        taken = restarting(replica, so_far, noted, disruption, disruption=disruption)
        return taken if is_terminating else msgspec.structs.replace(taken, wait=0.0)
    if phase == "Running":
        waits = awaiting_kubelet(replica, pod, so_far, noted, of.now) if record.in_place else None
        if waits is not None:
            return waits
        if noted > so_far and index not in record.started and _is_of_before(pod, record):
            # An earlier plan has recorded the replica's restart, but its pod was not deleted yet.
            again = restarting(replica, so_far, noted, "is being started again")
            return msgspec.structs.replace(again, wait=0.0)
        is_ready = _is_ready(pod)
        return Replica(index, pod, ReplicaState.RUNNING, counted, counted, is_started=True, ready=is_ready)
    return Replica(index, pod, ReplicaState.PENDING, counted, counted, is_started=True)


def _phase(spec: ReplicaSpec | None, pod: Pod) -> str:
    """Return the phase of the replica: the pod's phase, or the phase that the end of `tensorflow` shows.

    If the container `tensorflow` has ended for good while other containers still run, the phase is Succeeded or Failed.
    """
    phase = replica_phase(pod)
    if phase != pod.status.phase == "Running" and spec is not None and restarts_in_pod(spec.template):
        return pod.status.phase
    return phase


def _is_of_before(pod: Pod, record: Record) -> bool:
    """Return whether a pod was created before the job's condition Restarting became true.

    A newer pod is the result of the restart, even if the pod has no annotation with the number of restarts: a user may
    have removed this annotation.
    """
    created, since = pod.metadata.creation_timestamp, record.restarting_since
    return created is not None and since is not None and seconds_between(created, since) >= 0


def _is_ready(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return all(container.ready for container in pod.status.container_statuses)


def _terminating(record: Record, replica: Replica, pod: Pod, so_far: int, noted: int) -> Replica:
    is_taken = replica.index in record.started
    if not is_taken and noted <= so_far:
        return msgspec.structs.replace(replica, lost_early=True)
    disruption = deletion_of(pod) if is_taken else ""
    return restarting(replica, so_far, noted, "its pod is being deleted", disruption=disruption)


def _ended_badly(of: _Type, replica: Replica, pod: Pod, so_far: int, noted: int) -> Replica:
    """Return a replica whose pod has failed, or was lost with its node.

    The replica has failed for good, or it restarts. `so_far` is the number of restarts that the pod shows; `noted` is
    the number that the status has recorded.
    """
    record, ending = of.record, ending_of(pod)
    if is_permanent(ending, of.policy):
        return _failed(replica, ending)
    before = so_far
    if noted > so_far and not pod.status.container_statuses and replica.index in record.started:
        # After an eviction, the kubelet may no longer report the containers, so `so_far` lacks the restarts in place.
        # The status has recorded these restarts, but not this end: that write would have removed the index from
        # `startedIndexes`.
        before = min(noted, MAX_RESTARTS - 1)
    disruption = disruption_of(pod, ending) if ending.is_disruption else ""
    wait: float | None = None
    if pod.metadata.deletion_timestamp is None:
        # After a failure, the wait depends on the failures of this replica. After a disruption,
        # `restarts/disruptions.py` computes the wait for all replicas of the job.
        failures = max(so_far - record.disruptions.get(replica.index, 0), 0)
        wait = 0.0 if disruption else restart_wait(pod, failures + 1, of.now, of.options)
    return msgspec.structs.replace(
        restarting(replica, before, noted, str(ending), disruption=disruption),
        exit_code=ending.exit_code,
        unaided=record.in_place and was_left_alone(pod, ending),
        wait=wait,
    )


def rests_on_its_pod(replica: Replica) -> bool:
    """Return whether the replica restarts now although its pod shows fewer restarts than the status has recorded.

    Then the cache may show an old pod that was replaced already, and the restart would be counted twice. So the pod
    must be looked up.
    """
    return replica.newly_restarting and replica.pod is not None and replica.counted > restarts_so_far(replica.pod)


def _failed(replica: Replica, ending: Ending | None) -> Replica:
    if ending is None:
        return msgspec.structs.replace(replica, state=ReplicaState.FAILED)
    return msgspec.structs.replace(replica, state=ReplicaState.FAILED, exit_code=ending.exit_code, cause=str(ending))


def _precedence(pod: Pod) -> tuple[bool, int, float, str, str]:
    """Return the sort key for several pods of one index. The first pod is kept.

    Pods that are not being deleted come first. Among these, the pod that has progressed most comes first. If several
    pods have progressed equally far, the oldest comes first.
    """
    return (
        pod.metadata.deletion_timestamp is not None,
        -_PHASE_RANK.get(replica_phase(pod), 0),
        epoch_seconds(pod.metadata.creation_timestamp),
        pod.metadata.name,
        pod.metadata.uid,
    )
