"""Sets the number of workers of an elastic job, near the beginning of a plan. Pure.

`spec.elasticPolicy` lets the number of workers change. The plan is made from a copy of the job with the current number
of workers. So all other code (TF_CONFIG, the variables of Keras and JAX, services, gang, usage) works as if the spec
had this number. The number is in the status. Each pod also records the number of workers for which the pod was created:
if the cache of a new leader shows pods that are newer than the status, the number in these pods counts.

If the number changes, all replicas restart together (`job_restart`); this does not count as a failure. The new number
is written before anything is deleted, and all old pods are gone before the first new pod is created. So the number of
running workers is never larger than the larger of the two numbers. A job that Kueue has preempted has no pods. If Kueue
admits it with another number, this is a change without such a restart.

To find out whether there is room for more workers, the operator creates *probes*: pods that never run the program, and
only show whether a scheduler finds nodes for them.

`elastic_size` has the rules. This file reads the facts for these rules from the replicas and their pods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import msgspec

from tfoperator.api.fields.limits import MAX_REPLICAS
from tfoperator.api.replicas.names import MAX_RESTARTS, is_probe, replica_of
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.parts.elastic import ElasticStatus
from tfoperator.api.v1.status import all_conditions, parse_indexes
from tfoperator.api.v1.types import TFJob
from tfoperator.api.waiting import ReasonKind, unschedulable_reasons, why_it_waits
from tfoperator.base.clock import seconds_between, whole_second
from tfoperator.controller.plan.facts.elastic_size import Allowed, Room, Size, decide
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.pod_ends.restart import job_restarts_before, job_restarts_so_far
from tfoperator.controller.plan.replicas.replicas import (
    ENDED_STATES,
    STATES_WITHOUT_POD,
    Replica,
    ReplicaGroup,
    ReplicaState,
)
from tfoperator.controller.plan.values.conditions import is_held
from tfoperator.controller.plan.values.observed import Observed, QueueGate
from tfoperator.controller.pods.manifests import desired_size
from tfoperator.controller.pods.probes import made_for
from tfoperator.kube.views.objects import Pod

_ANSWER_TIME = 30.0
"""If one probe has a node, the operator waits for the scheduler's answers to the other probes, but for at most this
number of seconds. A probe is a pod that tests whether there is room for another worker.
"""

_MAX_REASON = 240
"""The maximum number of characters that the reason of a change copies from a message of the scheduler or Kubernetes."""

_ON_THE_WAY = (ReplicaState.RESTARTING, ReplicaState.VANISHED, ReplicaState.LEAVING)
_NO_ROOM = (ReasonKind.UNSCHEDULABLE, ReasonKind.QUOTA)

_NOT_BY_WORKERS = re.compile(
    "affinity/selector|untolerated taint|were unschedulable|volume node affinity|persistentvolumeclaim", re.IGNORECASE
)
"""An obstacle of the scheduler that remains when a worker leaves, because the worker does not cause it."""


def as_sized(observed: Observed) -> Observed:
    """Return the observed elastic job with the current number of workers in its spec.

    If there is no current number yet, or the job has no workers, return `observed` unchanged.
    """
    if _workers_of(observed.job) < 1:
        return observed
    recorded = _recorded(observed) or _before_policy(observed)
    workers = 0 if recorded is None else recorded.workers
    return _with_workers(observed, workers) if workers > 0 else observed


def with_size(facts: Facts, spec: TFJob, seen: Callable[[Observed], Facts]) -> Facts:
    """Return the facts about an elastic job, with the number of workers that it has from now on.

    `spec` is the job with the number of workers that the user wrote, or that the queue has admitted. If the number
    changes, `seen` computes all facts again from the job with the new number.
    """
    policy, admitted = spec.spec.elastic_policy, _workers_of(spec)
    if policy is None or facts.suspended or admitted < 1:
        return facts
    observed, number = facts.observed, job_restarts_so_far(spec, facts.observed.pods)
    probes = [pod for pod in observed.pods if _is_kept(pod)]
    room = None if number >= MAX_RESTARTS or _is_on_the_way(facts) else _room(facts, probes)
    recorded = _recorded(observed)
    allowed = _allowed(observed.gate, admitted)
    size = decide(policy, recorded or _before_policy(observed), allowed, room, facts.now)
    size = _with_answers(size, probes, facts.now)
    if size.changes:
        facts = seen(_with_workers(observed, size.workers))
    kept = frozenset(pod.metadata.uid for pod in probes if size.before <= _index(pod) < size.before + size.probes)
    kept = frozenset() if size.changes else kept
    size = msgspec.structs.replace(size, kept=kept, has_pods=bool(observed.pods), is_new=recorded is None)
    groups = tuple(_without_probes(group, kept) for group in facts.groups) if kept else facts.groups
    return msgspec.structs.replace(facts, groups=groups, size=size)


def with_full_size(facts: Facts) -> Facts:
    """Return the facts about a job that was elastic until a user removed `spec.elasticPolicy`.

    If its pods were created for another number of workers than the job has now, all replicas restart: otherwise the new
    pods would have another cluster in their TF_CONFIG than the old pods.
    """
    job, pods, workers = facts.job, facts.observed.pods, _workers_of(facts.job)
    number = job_restarts_so_far(job, pods)
    if facts.suspended or workers < 1 or number >= MAX_RESTARTS:
        return facts
    current = (pod for pod in pods if job_restarts_before(pod) >= number and not is_probe(pod.metadata.annotations))
    before = max({made_for(pod) for pod in current} - {0, workers}, default=0)
    if not before:
        return facts
    record = ElasticStatus(workers, workers, whole_second(facts.now), "elasticPolicy was removed")
    return msgspec.structs.replace(facts, size=Size(workers, before, workers, workers, record, has_pods=True))


def _allowed(gate: QueueGate | None, admitted: int) -> Allowed:
    """Return three numbers of workers: wanted by the job, admitted by its queue, and with quota in the queue.

    Without a queue, all three are `admitted`.
    """
    if gate is None:
        return Allowed(admitted, admitted, admitted)
    wanted = admitted if gate.workers is None else gate.workers
    return Allowed(wanted, admitted, gate.quota.get(ReplicaType.WORKER.lower(), admitted))


def _with_answers(size: Size, probes: Sequence[Pod], now: datetime) -> Size:
    """Return the size; if a probe has a node, set `look_again` to the seconds left to schedule the other probes."""
    if not size.probes or not any(pod.spec.node_name for pod in probes):
        return size
    made = [seconds_between(pod.metadata.creation_timestamp or now, now) for pod in probes]
    left = max(_ANSWER_TIME - min(made), 1.0)
    return msgspec.structs.replace(size, look_again=left)


def _recorded(observed: Observed) -> ElasticStatus | None:
    """Return the recorded state of the number of workers; None if there is none yet.

    The number in the newest pods counts instead if the status was lost, is older than these pods, or got another number
    while no cache showed these pods. In the last case, the plan restarts the pods with the other number. A job that is
    suspended or waits in its queue has no number, because it starts with the number that its queue admits.
    """
    status = observed.job.status
    recorded = status.elastic
    if observed.is_suspended or is_held(all_conditions(status)):
        return None if recorded is None else msgspec.structs.replace(recorded, workers=0)
    made = (pod for pod in observed.pods if made_for(pod) and not is_probe(pod.metadata.annotations))
    newest = max(made, key=job_restarts_before, default=None)
    if newest is not None:
        workers, is_current = made_for(newest), job_restarts_before(newest) >= status.job_restarts
        if recorded is None:
            recorded = ElasticStatus(workers, workers, newest.metadata.creation_timestamp)
        elif is_current and recorded.workers != workers:
            recorded = msgspec.structs.replace(recorded, workers=workers)
    if recorded is None or recorded.workers <= MAX_REPLICAS:
        return recorded
    return msgspec.structs.replace(recorded, workers=MAX_REPLICAS)


def _before_policy(observed: Observed) -> ElasticStatus | None:
    """Return the number of workers of a job that is elastic only since its pods were created; None without such pods.

    This number is in the TF_CONFIG of these pods. It may differ from the number in the spec, because a user can add the
    policy and change the number in one edit.
    """
    job, pods = observed.job, observed.pods
    if observed.is_suspended or is_held(all_conditions(job.status)):
        return None
    number = job_restarts_so_far(job, pods)
    replicas = [(replica_of(pod.metadata.labels), pod) for pod in pods if job_restarts_before(pod) >= number]
    made = {
        replica[1]: pod
        for replica, pod in replicas
        if replica is not None and replica[0] is ReplicaType.WORKER and not is_probe(pod.metadata.annotations)
    }
    if not made:
        return None
    known = job.status.replica_statuses.get(ReplicaType.WORKER)
    started = parse_indexes(known.started_indexes) if known is not None and known.started_indexes else ()
    workers = min(max([*made, *started]) + 1, MAX_REPLICAS)
    return ElasticStatus(workers, workers, made[max(made)].metadata.creation_timestamp)


def _workers_of(job: TFJob) -> int:
    return desired_size(job.spec.tf_replica_specs.get(ReplicaType.WORKER))


def _with_workers(observed: Observed, workers: int) -> Observed:
    job = observed.job
    spec = job.spec.tf_replica_specs.get(ReplicaType.WORKER)
    if spec is None or spec.replicas == workers:
        return observed
    replace = msgspec.structs.replace
    specs = {**job.spec.tf_replica_specs, ReplicaType.WORKER: replace(spec, replicas=workers)}
    return replace(observed, job=replace(job, spec=replace(job.spec, tf_replica_specs=specs)))


def _is_on_the_way(facts: Facts) -> bool:
    return any(replica.state in _ON_THE_WAY for group in facts.groups for replica in group.replicas)


def _is_kept(pod: Pod) -> bool:
    """Return whether a pod is a probe in phase Pending (with or without a node) that is not being deleted."""
    is_alive = pod.metadata.deletion_timestamp is None and pod.status.phase in ("", "Pending")
    return is_alive and is_probe(pod.metadata.annotations) and replica_of(pod.metadata.labels) is not None


def _index(pod: Pod) -> int:
    replica = replica_of(pod.metadata.labels)
    return 0 if replica is None else replica[1]


def _room(facts: Facts, probes: Sequence[Pod]) -> Room:
    counted = [replica for group in facts.groups for replica in group.replicas if _counts(group, replica)]
    reasons = [*_reasons(facts)]
    placed = sum(bool(pod.spec.node_name) for pod in probes)
    slow = [pod for pod in probes if not pod.spec.node_name and not _is_refused(pod)]
    late = all(seconds_between(pod.metadata.creation_timestamp or facts.now, facts.now) >= _ANSWER_TIME for pod in slow)
    return Room(
        lacking=len(reasons),
        why=next(filter(None, reasons), ""),
        is_placed=all(map(_has_room, counted)),
        is_complete=all(_lets_grow(group, replica) for group in facts.groups for replica in group.replicas),
        found=placed,
        is_answered=late,
    )


def _counts(group: ReplicaGroup, replica: Replica) -> bool:
    """Return whether the job gets fewer workers if this replica lacks room.

    An evaluator is no member of the cluster: the workers train without it. For a chief that lacks room, a worker may
    leave, so that the chief gets the worker's room. But no worker leaves if the chief can use no worker's room.
    """
    if group.type is ReplicaType.WORKER:
        return True
    if group.type is ReplicaType.EVALUATOR:
        return False
    obstacles = () if replica.pod is None or not _is_refused(replica.pod) else _obstacles(replica.pod)
    return not obstacles or not all(map(_NOT_BY_WORKERS.search, obstacles))


def _lets_grow(group: ReplicaGroup, replica: Replica) -> bool:
    """Return whether the job may grow although its replicas then restart.

    The workers, and a chief, must run. An evaluator may wait for a node.
    """
    if group.type is ReplicaType.EVALUATOR:
        return replica.state not in ENDED_STATES
    return replica.state is ReplicaState.RUNNING


def _reasons(facts: Facts) -> Iterator[str]:
    """Yield the reason for each counted replica that lacks a node or quota; "" if the reason is unknown."""
    for group in facts.groups:
        refused = _refusal(facts, group)
        for replica in group.replicas:
            if not _counts(group, replica):
                continue
            if replica.state in STATES_WITHOUT_POD and refused is not None:
                yield refused
            elif replica.state is ReplicaState.PENDING and replica.pod is not None and _is_refused(replica.pod):
                reason = why_it_waits(replica.pod, None, None)
                yield "" if reason is None else _in_short(replica.pod, str(reason))


def _obstacles(pod: Pod) -> list[str]:
    """Return the obstacles in a scheduler's message about the pod, without numbers of nodes."""
    messages = [
        condition.message
        for condition in pod.status.conditions
        if condition.type == "PodScheduled" and condition.status == "False"
    ]
    return [obstacle for message in messages for obstacle in unschedulable_reasons(message)]


def _in_short(pod: Pod, reason: str) -> str:
    """Return the obstacles in a scheduler's message, without numbers of nodes; without obstacles, return `reason`."""
    short = ", ".join(_obstacles(pod)) or reason
    return short if len(short) <= _MAX_REASON else short[: _MAX_REASON - 3] + "..."


def _refusal(facts: Facts, group: ReplicaGroup) -> str | None:
    """Return why an exceeded quota prevents the creation of pods of this type; None if there is no such quota.

    After the first refusal, the operator does not try other pods of the type for some time.
    """
    refusals = facts.observed.not_created or {}
    missing = (
        replica.index
        for replica in group.replicas
        if replica.state in STATES_WITHOUT_POD and replica.held_until is None
    )
    reasons = (refusals.get((group.type, index)) for index in missing)
    return next((str(reason) for reason in reasons if reason is not None and reason.kind in _NO_ROOM), None)


def _is_refused(pod: Pod) -> bool:
    """Return whether a scheduler has tried and found no node for the pod."""
    if pod.spec.node_name or pod.status.phase not in ("", "Pending"):
        return False
    reason = why_it_waits(pod, None, None)
    return reason is not None and reason.kind in _NO_ROOM


def _has_room(replica: Replica) -> bool:
    if replica.state in ENDED_STATES or replica.state is ReplicaState.RUNNING:
        return True
    return replica.pod is not None and bool(replica.pod.spec.node_name)


def _without_probes(group: ReplicaGroup, kept: frozenset[str]) -> ReplicaGroup:
    """Return the group after the probes in `kept` (UIDs) were removed from its list of pods to delete.

    A probe is a pod that only finds out whether the cluster has room for one more worker.
    """
    if group.type is not ReplicaType.WORKER or not group.beside.surplus:
        return group
    surplus = tuple((index, pod) for index, pod in group.beside.surplus if pod.metadata.uid not in kept)
    return msgspec.structs.replace(group, beside=msgspec.structs.replace(group.beside, surplus=surplus))
