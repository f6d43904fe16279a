"""Brings pods and services to the spec: creates missing objects, replaces failed pods, deletes surplus objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tfoperator.api.replicas.names import replica_of
from tfoperator.api.replicas.replica_pods import ENDED_PHASES, replica_phase
from tfoperator.api.v1.choices import Network, ReplicaType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.base.clock import epoch_seconds
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.proposal import (
    STATUS_FIRST,
    Act,
    LookAgain,
    Replace,
    Want,
    delete,
    deletion,
    event,
    stop,
)
from tfoperator.controller.plan.pod_ends.restart import overdue_seconds
from tfoperator.controller.plan.replicas.replicas import (
    ENDED_STATES,
    NOTHING_BESIDE,
    STATES_WITHOUT_POD,
    JobRestart,
    Replica,
    ReplicaGroup,
    ReplicaState,
)
from tfoperator.controller.plan.values.actions import Create, DeleteReason, PhaseName, StopReason
from tfoperator.controller.plan.values.observed import QueueGate
from tfoperator.controller.pods.bodies import away_from
from tfoperator.controller.pods.data_service import DATA_SERVICE_FIELD
from tfoperator.controller.pods.manifests import PodCounts, ReplicaManifests
from tfoperator.controller.pods.probes import for_workers
from tfoperator.kube.views.objects import Pod, Service

_POD_STATES = (ReplicaState.PENDING, ReplicaState.RUNNING)


def plan_replicas(facts: Facts) -> Iterator[Want]:
    """Plan creations, deletions and restarts. Raises PodTemplateError if the body of a pod or service can't be made.

    If the pod of a replica is being deleted, the replica gets a new pod after the old pod is gone, because both have
    the same name. A failed pod stays until its restart delay has passed: its logs stay readable, and while the pod has
    the replica's pod name, the API server refuses a new pod. After the delay, the failed pod is deleted at once,
    because nothing runs in it, and the same plan creates the new pod. If all replicas restart together, new pods are
    created only after the last old pod is gone.
    """
    gang = facts.gang
    # `has_quota` is False if the quota of replicas that start again was given back to Kueue. When the status shows that
    # these replicas have not ended, the operator requests their quota again.
    has_quota = facts.observed.gate is None or not _exceeds(facts.observed.gate, facts.groups)
    terms = _Terms(
        manifests=ReplicaManifests(facts.job, facts.groups, facts.options) if gang is None else gang.manifests,
        restart=facts.restart,
        per_job=facts.options.network is Network.PER_JOB,
        may_create=has_quota and not facts.restart.old and (gang is None or gang.may_create),
        # A gang scheduler may still count the old pod. So with a gang, the new pod is created only after the old pod is
        # gone.
        may_replace=has_quota and gang is None,
        workers=0 if facts.size is None else facts.size.workers,
    )
    if facts.restart.old:
        yield from _delete_old(facts.restart)
    services, doubles = _services_by_replica(facts.observed.services)
    for double in doubles:
        yield from delete("services", double, DeleteReason.DUPLICATE)
    if terms.per_job and terms.may_create:
        yield from _job_service(facts, terms.manifests)
    creating = []
    for group in facts.groups:
        wants = [
            want
            for replica in group.replicas
            for want in _plan_replica(terms, group, replica, has_service=(group.type, replica.index) in services)
        ]
        yield from wants
        if any(map(_creates_pod, wants)):
            creating.append(group)
        yield from _end_unwanted(group)
    if creating:
        yield from _warnings(creating, terms.manifests)
    yield from _unwanted_services(facts, services)


def free_lost_pods(facts: Facts) -> Iterator[Want]:
    """Force the deletion of pods on a lost node after their grace period: the kubelet will not confirm their end."""
    for pod in facts.observed.pods:
        overdue = overdue_seconds(pod, facts.now, facts.options)
        if overdue is None:
            continue
        if overdue >= 0:
            yield from delete("pods", pod, DeleteReason.NODE_LOST, grace=0)
        else:
            yield LookAgain(-overdue)


def count_first(facts: Facts) -> Iterator[Want]:
    """Write the status before any action if the status records a resumption, a restart of all replicas or a disruption.

    If the operator crashed between the actions and the status write, the next sync would see a new pod but no record of
    the restart. Then it could take the new pod for an old pod, or would never count the loss of the earlier pod.
    """
    if facts.resumed or facts.restart.causes or any(group.has_new_disruption for group in facts.groups):
        yield STATUS_FIRST
    if facts.held > 0:
        yield LookAgain(facts.held)


class _Terms(msgspec.Struct, frozen=True):
    """The settings that are the same for all replicas of the job."""

    manifests: ReplicaManifests
    restart: JobRestart
    per_job: bool
    """Whether there is one service for all replicas."""
    may_create: bool
    """Whether objects may be created."""
    may_replace: bool
    """Whether one plan may delete a failed pod and create the new pod."""
    workers: int
    """The number of workers of an elastic job; 0 for other jobs."""


def _plan_replica(terms: _Terms, group: ReplicaGroup, replica: Replica, *, has_service: bool) -> Iterator[Want]:
    has_service = has_service or terms.per_job
    if terms.may_create:
        if not has_service and replica.state not in ENDED_STATES:
            yield Act(PhaseName.REPLICAS, _service(terms, group, replica))
        if replica.state in STATES_WITHOUT_POD and replica.held_until is None:
            yield Act(PhaseName.REPLICAS, _pod(terms, group, replica))
    if replica.wait is not None:
        yield from _restart(terms, group, replica, replace=terms.may_replace and has_service)


def _creates_pod(want: Want) -> bool:
    return isinstance(want, Replace) or (
        isinstance(want, Act) and isinstance(want.action, Create) and want.action.kind == "pods"
    )


def _unwanted_services(facts: Facts, services: Mapping[tuple[ReplicaType, int], Service]) -> Iterator[Act]:
    """Delete the services of replicas that are not wanted.

    If the whole job has one service, delete the services of all replicas.
    """
    if not services:
        return
    sizes = {} if facts.options.network is Network.PER_JOB else {group.type: group.size for group in facts.groups}
    unwanted = (replica for replica in services if replica[1] >= sizes.get(replica[0], 0))
    for replica in sorted(unwanted, reverse=True):
        yield from delete("services", services[replica], DeleteReason.SCALE_DOWN)


def _exceeds(gate: QueueGate, groups: Sequence[ReplicaGroup]) -> bool:
    """Return whether the pods of any replica type need more quota than the job has for this type.

    Each replica that has not ended needs quota. Surplus pods, duplicates, and pods of ended replicas in which other
    containers still run need quota, too.
    """
    for group in groups:
        beside = group.beside
        others = [*beside.outliving, *(pod for _, pod in (*beside.surplus, *beside.duplicates))]
        needed = sum(replica.state not in ENDED_STATES for replica in group.replicas)
        needed += sum(pod.status.phase not in ENDED_PHASES for pod in others)
        if needed > gate.quota.get(group.type.lower(), needed):
            return True
    return False


def report_edits(facts: Facts) -> Iterator[Want]:
    """Report once that a pod template has changed, if there are pods that were made from the old template."""
    edited = [group for group in facts.groups if group.type in facts.observed.edited_templates]
    types = [str(group.type) for group in edited if any(replica.state in _POD_STATES for replica in group.replicas)]
    service = facts.data_service
    if service is not None and DATA_SERVICE_FIELD in facts.observed.edited_templates:
        types += ["the data service"] if any(member.pod is not None for member in service.members) else []
    if types:
        yield event(
            JobReason.TEMPLATE_CHANGED,
            f"The pod template of {', '.join(types)} has changed. Existing pods keep the old template until they are "
            "restarted; to replace all pods, suspend the job and resume it.",
        )


def _job_service(facts: Facts, manifests: ReplicaManifests) -> Iterator[Act]:
    """Create a single service for all replicas, if any replica has not ended yet."""
    name = facts.options.naming.job(facts.job)
    there = any(service.metadata.name == name for service in facts.observed.services)
    if not there and any(replica.state not in ENDED_STATES for group in facts.groups for replica in group.replicas):
        body = manifests.job_service()
        creation = Create(kind="services", name=name, body=body, spec_field="spec.network")
        yield Act(PhaseName.NETWORK, creation)


def _end_unwanted(group: ReplicaGroup) -> Iterator[Act]:
    if group.beside is NOTHING_BESIDE:
        return
    for pod in group.beside.outliving:
        yield from stop(pod, StopReason.REPLICA_ENDED)
    for _, pod in group.beside.duplicates:
        yield from delete("pods", pod, DeleteReason.DUPLICATE)
    for _, pod in group.beside.surplus:
        yield from delete("pods", pod, DeleteReason.SCALE_DOWN)


def _warnings(groups: Sequence[ReplicaGroup], manifests: ReplicaManifests) -> Iterator[Want]:
    """Warn the author of the job about settings with unexpected effects, for groups whose pods are created."""
    for group in groups:
        yield from _overruled(group, manifests)
    if problem := manifests.too_many_hosts:
        yield event(JobReason.TOO_MANY_REPLICAS, f"spec.tfReplicaSpecs: {problem}")
    if any(manifests.keeps_another_scheduler(group) for group in groups):
        yield event(
            JobReason.SET_SCHEDULER_NAME,
            "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten",
        )


def _overruled(group: ReplicaGroup, manifests: ReplicaManifests) -> Iterator[Want]:
    """Report the settings of a template that the operator overwrites."""
    if manifests.overrules_restart_policy(group):
        yield event(
            JobReason.SET_RESTART_POLICY,
            "Restart policy in pod template will be overwritten by restart policy in replica spec",
        )
    has_started = bool(group.record.started or group.counts)
    if not has_started and manifests.overrules_tf_config(group):
        yield event(
            JobReason.SET_TF_CONFIG,
            f"TF_CONFIG in the pod template of {group.type} has no effect, because the operator sets this variable "
            "for all replicas of the job. Remove it from env, or give your own variable another name",
        )
    if manifests.overrules_host_name(group):
        yield event(
            JobReason.SET_HOSTNAME,
            f"hostname and subdomain in the pod template of {group.type} have no effect, because spec.network of the "
            f"job is {Network.PER_JOB}",
        )


def _pod(terms: _Terms, group: ReplicaGroup, replica: Replica) -> Create:
    restart = terms.restart
    counts = PodCounts(replica.restarts, replica.disruptions, restart.number, restart.disruptions)
    body = terms.manifests.pod(group, replica.index, counts)
    if terms.workers:
        body = for_workers(body, terms.workers)
    if replica.avoids:
        body = away_from(body, replica.avoids)
    return _creation("pods", group, replica, restart, body)


def _service(terms: _Terms, group: ReplicaGroup, replica: Replica) -> Create:
    return _creation("services", group, replica, terms.restart, terms.manifests.service(group, replica.index))


def _creation(
    kind: Literal["pods", "services"],
    group: ReplicaGroup,
    replica: Replica,
    restart: JobRestart,
    body: dict[str, Any],
) -> Create:
    return Create(
        kind=kind,
        name=body["metadata"]["name"],
        replica=(group.type, replica.index),
        body=body,
        spec_field=f"spec.tfReplicaSpecs[{group.type}].template",
        replacement=replica.restarts > 0 or restart.number > 0,
    )


def _delete_old(restart: JobRestart) -> Iterator[Want]:
    """Delete the old pods: at once if they still run; only after the delay `restart.wait` if they have ended."""
    if restart.wait > 0:
        yield LookAgain(restart.wait)
    for pod in restart.old:
        if restart.wait <= 0 or replica_phase(pod) not in ENDED_PHASES:
            yield from delete("pods", pod, DeleteReason.RESTART)


def _gone_when_deleted(group: ReplicaGroup, replica: Replica, manifests: ReplicaManifests) -> Pod | None:
    """Return the pod of a replica that restarts now, if the pod's name is free as soon as the pod is deleted.

    In this case, the operator need not wait until a kubelet confirms the pod's end. The result is None if the pod has
    finalizers or another name (an adopted pod), or if a second pod of the replica may still run.
    """
    pod = replica.pod
    if pod is None or replica.wait is None or replica.wait > 0:
        return None
    if pod.status.phase != "Failed" or pod.metadata.finalizers:
        return None
    alone = all(index != replica.index for index, _ in group.beside.duplicates)
    return pod if alone and pod.metadata.name == manifests.name(group, replica.index) else None


def _restart(terms: _Terms, group: ReplicaGroup, replica: Replica, *, replace: bool) -> Iterator[Want]:
    """Delete the pod of a replica that restarts, when its delay has passed.

    With `replace`, the same plan creates the new pod, if the name is free after the deletion.
    """
    ended = _gone_when_deleted(group, replica, terms.manifests)
    if ended is not None and replace:
        yield Replace(deletion("pods", ended, DeleteReason.RESTART), _pod(terms, group, replica))
    elif replica.wait is not None and replica.wait > 0:
        yield LookAgain(replica.wait)
    elif replica.pod is not None:
        phase = replica.pod.status.phase
        reason = DeleteReason.NODE_LOST if phase == "Unknown" else DeleteReason.RESTART
        # With restarts in place, the pod may have changed since the cache saw it as Running: its kubelet may be about
        # to restart its container. So delete only this version of the pod.
        as_seen = group.record.in_place and phase == "Running"
        yield from delete("pods", replica.pod, reason, as_seen=as_seen)


def _services_by_replica(
    services: Iterable[Service],
) -> tuple[dict[tuple[ReplicaType, int], Service], Sequence[Service]]:
    """Return the oldest service of each replica, and the duplicates.

    Services whose labels name no replica are ignored.
    """
    chosen: dict[tuple[ReplicaType, int], Service] = {}
    doubles = []
    for service in services:
        replica = replica_of(service.metadata.labels)
        if replica is None:
            continue
        if replica not in chosen:
            chosen[replica] = service
        elif (rival := chosen[replica]) is not service:
            chosen[replica], double = sorted((rival, service), key=_precedence)
            doubles.append(double)
    return chosen, doubles


def _precedence(service: Service) -> tuple[bool, float, str, str]:
    meta = service.metadata
    return (meta.deletion_timestamp is not None, epoch_seconds(meta.creation_timestamp), meta.name, meta.uid)
