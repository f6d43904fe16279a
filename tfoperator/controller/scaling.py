"""Brings pods and services to what the spec asks for: missing ones made, failed ones replaced, surplus deleted."""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.api.names import replica_of
from tfoperator.api.v1.types import ReplicaType
from tfoperator.controller.actions import DeleteReason
from tfoperator.controller.bodies import Bodies
from tfoperator.controller.draft import Draft
from tfoperator.controller.gang_plan import gang_of, plan_pod_group
from tfoperator.controller.replicas import Replica, ReplicaGroup, Standing
from tfoperator.controller.times import epoch_seconds
from tfoperator.kube.objects import Service

__all__ = ["plan_replicas"]

_NEEDS_POD = (Standing.MISSING, Standing.VANISHED)
_ENDED = (Standing.SUCCEEDED, Standing.FAILED)


def plan_replicas(draft: Draft, groups: Sequence[ReplicaGroup]) -> None:
    """Plan creations, deletions and restarts. Raises TemplateError if a body can't be made.

    A replica whose pod terminates gets its successor when that is gone, for both have the same name. A failed pod
    stays until its restart delay has passed: it holds the logs, and its name.
    """
    gang = gang_of(draft)
    bodies = Bodies(draft.job, groups, draft.options, gang)
    may_create = gang is None or plan_pod_group(draft, groups, gang, bodies.template)
    services = _services_by_replica(draft)
    other_scheduler = False
    for group in groups:
        creates_pods = False
        for replica in group.replicas:
            service = services.pop((group.type, replica.index), None)
            if may_create and service is None and replica.standing not in _ENDED:
                draft.create_services.append(bodies.service(group, replica.index))
            if may_create and replica.standing in _NEEDS_POD:
                draft.create_pods.append(bodies.pod(group, replica.index, replica.restarts))
                creates_pods = True
            _restart(draft, replica)
        other_scheduler |= creates_pods and bodies.keeps_another_scheduler(group)
        for _, pod in group.duplicates:
            draft.delete_pod(pod, DeleteReason.DUPLICATE)
        for _, pod in group.surplus:
            draft.delete_pod(pod, DeleteReason.SCALE_DOWN)
        if creates_pods and bodies.overrules_restart_policy(group):
            draft.event(
                "Warning",
                "SetPodTemplateRestartPolicy",
                "Restart policy in pod template will be overwritten by restart policy in replica spec",
            )
    if other_scheduler:
        draft.event(
            "Warning",
            "SetPodTemplateSchedulerName",
            "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten",
        )
    # What is left belongs to no wanted replica.
    for unwanted in sorted(services, reverse=True):
        draft.delete_service(services[unwanted], DeleteReason.SCALE_DOWN)


def _restart(draft: Draft, replica: Replica) -> None:
    if replica.pod is None or replica.wait is None:
        return
    if replica.wait > 0:
        draft.requeue_in(replica.wait)
    else:
        lost = replica.pod.status.phase == "Unknown"
        draft.delete_pod(replica.pod, DeleteReason.NODE_LOST if lost else DeleteReason.RESTART)


def _services_by_replica(draft: Draft) -> dict[tuple[ReplicaType, int], Service]:
    """One service per replica, the oldest; its doubles are deleted. Services that name no replica are left alone."""
    chosen: dict[tuple[ReplicaType, int], Service] = {}
    for service in draft.observed.services:
        replica = replica_of(service.metadata.labels)
        if replica is None:
            continue
        rival = chosen.setdefault(replica, service)
        if rival is not service:
            kept, double = sorted((rival, service), key=_precedence)
            chosen[replica] = kept
            draft.delete_service(double, DeleteReason.DUPLICATE)
    return chosen


def _precedence(service: Service) -> tuple[bool, float, str, str]:
    meta = service.metadata
    return (meta.deletion_timestamp is not None, epoch_seconds(meta.creation_timestamp), meta.name, meta.uid)
