"""Brings pods and services to the spec: creates missing ones, replaces failed ones, deletes surplus ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tfoperator.api.names import replica_of
from tfoperator.api.replica_pods import ENDED_PHASES, replica_phase
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.types import Network, ReplicaType
from tfoperator.base.clock import epoch_seconds
from tfoperator.controller.plan.actions import Create, DeleteReason, PhaseName, StopReason
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.facts import Facts
from tfoperator.controller.plan.gang import gang_of, plan_pod_group
from tfoperator.controller.plan.observed import QueueGate
from tfoperator.controller.plan.replicas import (
    ENDED_STATES,
    STATES_WITHOUT_POD,
    JobRestart,
    Replica,
    ReplicaGroup,
    ReplicaState,
)
from tfoperator.controller.pods.bodies import away_from
from tfoperator.controller.pods.manifests import PodCounts, ReplicaManifests
from tfoperator.kube.objects import Pod, Service

_POD_STATES = (ReplicaState.PENDING, ReplicaState.RUNNING)


def plan_replicas(draft: Draft, facts: Facts) -> None:
    """Plan creations, deletions and restarts. Raises PodTemplateError if a body can't be made.

    A replica whose pod terminates gets a new pod when the old one is gone, for both have the same name. A failed pod
    stays until its restart delay has passed: it holds the logs, and its name. Then it is deleted at once, for nothing
    runs in it, and its successor is created in the same plan. Where all replicas restart together, no pod is made
    before the last old one is gone.
    """
    groups, restart = facts.groups, facts.restart
    gang = None if draft.options.gang is None else gang_of(draft, draft.options.gang)
    manifests = ReplicaManifests(draft.job, groups, draft.options, gang)
    may_create = gang is None or plan_pod_group(draft, groups, gang, manifests.template)
    # Otherwise replicas start again whose quota was given back. It is asked for again when the status shows that.
    has_quota = draft.observed.gate is None or not _exceeds(draft.observed.gate, groups)
    may_create = may_create and has_quota
    if restart.old:
        may_create = False
        _delete_old(draft, restart)
    services = _services_by_replica(draft)
    per_job = draft.options.network is Network.PER_JOB
    if per_job and may_create:
        _plan_job_service(draft, groups, manifests)
    creating = []
    for group in groups:
        creates_pods = False
        for replica in group.replicas:
            has_service = per_job
            if not per_job:
                service = services.pop((group.type, replica.index), None)
                has_service = service is not None
                if may_create and service is None and replica.state not in ENDED_STATES:
                    draft.create_replica_object(_creation("services", group, replica, manifests, restart))
            if may_create and replica.state in STATES_WITHOUT_POD and replica.held_until is None:
                draft.create_replica_object(_creation("pods", group, replica, manifests, restart))
                creates_pods = True
            # A gang scheduler may still count the old pod: with one, its end is awaited.
            replace = gang is None and has_service and has_quota
            if replica.wait is not None and _restart(draft, group, replica, manifests, restart, replace=replace):
                creates_pods = True
        if creates_pods:
            creating.append(group)
        _end_unwanted(draft, group)
    if creating:
        _warn(draft, creating, manifests)
    # The remaining pods belong to no wanted replica.
    for unwanted in sorted(services, reverse=True):
        draft.delete("services", services[unwanted], DeleteReason.SCALE_DOWN)


def _exceeds(gate: QueueGate, groups: Sequence[ReplicaGroup]) -> bool:
    """Return whether the replicas that have not ended, and pods beside them, need more quota than the job has."""
    for group in groups:
        beside = group.beside
        others = [*beside.outliving, *(pod for _, pod in (*beside.surplus, *beside.duplicates))]
        needed = sum(one.state not in ENDED_STATES for one in group.replicas)
        needed += sum(pod.status.phase not in ENDED_PHASES for pod in others)
        if needed > gate.quota.get(group.type.lower(), needed):
            return True
    return False


def report_edits(draft: Draft, groups: Sequence[ReplicaGroup]) -> None:
    """Report once that what pods are made from was changed while pods made from the old run."""
    edited = [group for group in groups if group.type in draft.observed.edited_templates]
    types = [group.type for group in edited if any(one.state in _POD_STATES for one in group.replicas)]
    if types:
        draft.event(
            JobReason.TEMPLATE_CHANGED,
            f"The pods of {', '.join(types)} are to be made otherwise, from another template for example. Pods that "
            "exist stay as they were until they are made again; to replace all, suspend the job and resume it.",
        )


def _plan_job_service(draft: Draft, groups: Sequence[ReplicaGroup], manifests: ReplicaManifests) -> None:
    """Plan one service for all replicas, as long as one of them has work to do."""
    name = draft.options.naming.job(draft.job)
    there = any(one.metadata.name == name for one in draft.observed.services)
    if not there and any(replica.state not in ENDED_STATES for group in groups for replica in group.replicas):
        body = manifests.job_service()
        draft.add(PhaseName.NETWORK, Create(kind="services", name=name, body=body, spec_field="spec.network"))


def _end_unwanted(draft: Draft, group: ReplicaGroup) -> None:
    for pod in group.beside.outliving:
        draft.stop(pod, StopReason.REPLICA_ENDED)
    for _, pod in group.beside.duplicates:
        draft.delete("pods", pod, DeleteReason.DUPLICATE)
    for _, pod in group.beside.surplus:
        draft.delete("pods", pod, DeleteReason.SCALE_DOWN)


def _warn(draft: Draft, groups: Sequence[ReplicaGroup], manifests: ReplicaManifests) -> None:
    """Warn about settings that may surprise the author of the job, for groups whose pods are created."""
    for group in groups:
        _tell_what_is_overruled(draft, group, manifests)
    if problem := manifests.too_many_hosts:
        draft.event(JobReason.TOO_MANY_REPLICAS, f"spec.tfReplicaSpecs: {problem}")
    if any(manifests.keeps_another_scheduler(group) for group in groups):
        draft.event(
            JobReason.SET_SCHEDULER_NAME,
            "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten",
        )


def _tell_what_is_overruled(draft: Draft, group: ReplicaGroup, manifests: ReplicaManifests) -> None:
    if manifests.overrules_restart_policy(group):
        draft.event(
            JobReason.SET_RESTART_POLICY,
            "Restart policy in pod template will be overwritten by restart policy in replica spec",
        )
    has_started = bool(group.record.started or group.counts)
    if not has_started and manifests.overrules_tf_config(group):
        draft.event(
            JobReason.SET_TF_CONFIG,
            f"TF_CONFIG in the pod template of {group.type} is overwritten: the operator's names all replicas of the "
            "job. Remove it from env, or give your own variable another name",
        )
    if manifests.overrules_host_name(group):
        draft.event(
            JobReason.SET_HOSTNAME,
            f"hostname and subdomain in the pod template of {group.type} will be overwritten: the network of the job "
            f"is {Network.PER_JOB}",
        )


def _creation(
    kind: Literal["pods", "services"],
    group: ReplicaGroup,
    replica: Replica,
    manifests: ReplicaManifests,
    restart: JobRestart,
) -> Create:
    if kind == "pods":
        counts = PodCounts(
            restarts=replica.restarts,
            disruptions=group.disruption_counts.get(replica.index, 0),
            job_restarts=restart.number,
            job_disruptions=restart.disruptions,
        )
        body = manifests.pod(group, replica.index, counts)
        if replica.avoids:
            body = away_from(body, replica.avoids)
    else:
        body = manifests.service(group, replica.index)
    return Create(
        kind=kind,
        name=body["metadata"]["name"],
        replica=(group.type, replica.index),
        body=body,
        spec_field=f"spec.tfReplicaSpecs[{group.type}].template",
        replacement=replica.restarts > 0 or restart.number > 0,
    )


def _delete_old(draft: Draft, restart: JobRestart) -> None:
    """Stop pods that run at once; keep those that have ended for their delay."""
    if restart.wait > 0:
        draft.requeue_in(restart.wait)
    for pod in restart.old:
        if restart.wait <= 0 or replica_phase(pod) not in ENDED_PHASES:
            draft.delete("pods", pod, DeleteReason.RESTART)


def _gone_when_deleted(group: ReplicaGroup, replica: Replica, manifests: ReplicaManifests) -> Pod | None:
    """Return the pod of a replica that restarts now, if no kubelet must confirm its end: its name is free at once.

    One that was adopted may have another name, and a second pod of the replica may still run.
    """
    pod = replica.pod
    if pod is None or replica.wait is None or replica.wait > 0:
        return None
    if pod.status.phase != "Failed" or pod.metadata.finalizers:
        return None
    alone = all(index != replica.index for index, _ in group.beside.duplicates)
    return pod if alone and pod.metadata.name == manifests.name(group, replica.index) else None


def _restart(
    draft: Draft,
    group: ReplicaGroup,
    replica: Replica,
    manifests: ReplicaManifests,
    restart: JobRestart,
    *,
    replace: bool,
) -> bool:
    """Delete the pod of a replica that restarts, once it is time. Returns whether its successor is created with that.

    It is if `replace` allows that, and the name is free at once.
    """
    ended = _gone_when_deleted(group, replica, manifests)
    if ended is not None and replace:
        draft.replace(ended, _creation("pods", group, replica, manifests, restart))
        return True
    if replica.pod is not None and replica.wait is not None:
        if replica.wait > 0:
            draft.requeue_in(replica.wait)
        else:
            lost = replica.pod.status.phase == "Unknown"
            reason = DeleteReason.NODE_LOST if lost else DeleteReason.RESTART
            # Where kubelets restart containers, one that runs may be an older view of one that waits for that.
            as_seen = group.record.in_place and replica.pod.status.phase == "Running"
            draft.delete("pods", replica.pod, reason, as_seen=as_seen)
    return False


def _services_by_replica(draft: Draft) -> dict[tuple[ReplicaType, int], Service]:
    """Return one service per replica, the oldest; delete duplicates. Services that name no replica are left alone."""
    chosen: dict[tuple[ReplicaType, int], Service] = {}
    for service in draft.observed.services:
        replica = replica_of(service.metadata.labels)
        if replica is None:
            continue
        if replica not in chosen:
            chosen[replica] = service
        elif (rival := chosen[replica]) is not service:
            chosen[replica], double = sorted((rival, service), key=_precedence)
            draft.delete("services", double, DeleteReason.DUPLICATE)
    return chosen


def _precedence(service: Service) -> tuple[bool, float, str, str]:
    meta = service.metadata
    return (meta.deletion_timestamp is not None, epoch_seconds(meta.creation_timestamp), meta.name, meta.uid)
