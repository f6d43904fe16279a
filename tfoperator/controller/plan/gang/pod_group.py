"""Decides about a job's PodGroup: when there is one, what it asks for, and whether its pods may be made yet.

A job is scheduled as a gang from its first pod on, or not at all: one whose pods were made without a PodGroup, before
an administrator chose a gang scheduler, would otherwise get one that its pods are no members of, and a restarted pod
would wait for a gang that never comes together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfoperator.api.v1.types import ConditionType, RunPolicy, SchedulingPolicy
from tfoperator.controller.plan.actions import Create, Patch
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.gang.size import gang_size
from tfoperator.controller.plan.gang.waiting import not_admitted, not_scheduled
from tfoperator.controller.plan.replicas import ReplicaGroup, ReplicaState
from tfoperator.controller.pods import GangScheduler, Template, TemplateError, owner_reference

_NOT_ADMITTED = ("", "Pending")
_SCHEDULING_POLICY = "spec.runPolicy.schedulingPolicy"


def gang_of(draft: Draft) -> GangScheduler | None:
    """The scheduler of the job's gang; None if its pods are scheduled one by one."""
    gang = draft.options.gang
    if gang is None or draft.observed.pod_group is not None:
        return gang
    members = (gang.is_member(pod.metadata, draft.job) for pod in draft.observed.pods)
    return gang if all(members) else None


def plan_pod_group(
    draft: Draft,
    groups: Sequence[ReplicaGroup],
    gang: GangScheduler,
    template: Callable[[ReplicaGroup], Template],
) -> bool:
    """Plan the PodGroup, and say what the gang waits for; returns whether the job's objects may be created now.

    Raises TemplateError if a template's requests can't be read, or the PodGroup would name what the job may not have.
    """
    job, current = draft.job, draft.observed.pod_group
    policy = (job.spec.run_policy or RunPolicy()).scheduling_policy or SchedulingPolicy()
    if current is not None and current.metadata.deletion_timestamp is not None:
        draft.gang_waits = f"PodGroup {current.metadata.name} is being deleted, and made anew when it is gone"
        return False
    refused = draft.options.scheduling.problems(
        gang, job.metadata.namespace, policy, None if current is None else current.spec
    )
    if problems := "; ".join(refused):
        raise TemplateError(problems)
    size = gang_size(policy, groups, current, draft.observed.priorities, template)
    wanted = gang.spec(policy, size.members, size.resources)
    if current is None:
        body = gang.body(job, owner_reference(job), wanted)
        draft.change_pod_group(
            Create(kind="podgroups", name=job.metadata.name, body=body, spec_field=_SCHEDULING_POLICY)
        )
    else:
        change = gang.change(job, current, wanted)
        if change:
            name, uid = current.metadata.name, current.metadata.uid
            draft.change_pod_group(
                Patch(kind="podgroups", name=name, uid=uid, body=change, spec_field=_SCHEDULING_POLICY)
            )
    admitted = not gang.admits or (current is not None and current.status.phase not in _NOT_ADMITTED)
    if not admitted and _lacks_pods(groups):
        waits: str | None = not_admitted(job.metadata.name, wanted, current)
        draft.gang_is_stuck = current is not None and bool(current.status.phase)
    else:
        running = draft.conditions.get(ConditionType.RUNNING)
        waits = not_scheduled(wanted, groups, "" if running is None else running.message)
        draft.gang_is_stuck = bool(waits)
    draft.gang_waits = waits
    return admitted


def _lacks_pods(groups: Sequence[ReplicaGroup]) -> bool:
    return any(r.state in (ReplicaState.MISSING, ReplicaState.VANISHED) for group in groups for r in group.replicas)
