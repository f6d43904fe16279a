"""How a job's progress is told: conditions and events, in the Go operator's words where it has any.

Created, Running, Restarting, Succeeded, Failed and Suspended mean what they mean there. Running and Restarting
exclude each other. Unlike there, a job that doesn't run yet says why (Running is False then, with the reasons in its
message), Running counts the replicas, and Ready says that all of them do their work.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.api.v1.types import ConditionType
from tfoperator.controller.conditions import find_condition
from tfoperator.controller.draft import Draft
from tfoperator.controller.job_state import is_running
from tfoperator.controller.replicas import ReplicaGroup, Standing
from tfoperator.controller.status import readiness
from tfoperator.controller.waiting import waiting_summary

__all__ = ["report_created", "report_end", "report_progress", "report_suspension"]

_MAX_EXIT_EVENTS = 5
_MAX_LOSSES = 3


def report_created(draft: Draft) -> None:
    """The first thing that is said about any job."""
    if draft.conditions.get(ConditionType.CREATED) is None:
        name = draft.job.metadata.name
        draft.conditions.set(ConditionType.CREATED, "True", "TFJobCreated", f"TFJob {name} is created.")


def report_suspension(draft: Draft) -> None:
    """The job is suspended: nothing runs, and nothing waits to."""
    report_created(draft)
    conditions = draft.conditions
    message = f"TFJob {draft.job.metadata.name} is suspended."
    for condition in (ConditionType.RUNNING, ConditionType.READY):
        _set_false_if_there(draft, condition, "TFJobSuspended", message)
    conditions.remove(ConditionType.RESTARTING)
    if conditions.set(ConditionType.SUSPENDED, "True", "TFJobSuspended", message):
        draft.event("Normal", "TFJobSuspended", message)


def report_progress(draft: Draft, groups: Sequence[ReplicaGroup], *, resumed: bool) -> None:
    """The job is active: how far it has come, and what it waits for."""
    report_created(draft)
    conditions = draft.conditions
    if resumed:
        message = f"TFJob {draft.job.metadata.name} is resumed."
        conditions.set(ConditionType.SUSPENDED, "False", "TFJobResumed", message)
        draft.event("Normal", "TFJobResumed", message)
    _report_restarts(draft, groups)
    ready, completed, total = readiness(groups)
    waits = "; ".join(filter(None, (draft.gang_waits, waiting_summary(groups, in_gang=draft.gang_waits is not None))))
    failed = sum(len(group.failed) for group in groups)
    counted = f"{ready}/{total} replicas ready"
    counted += f", {completed} completed" if completed else ""
    counted += f", {failed} failed" if failed else ""
    detail = f"{counted}; {waits}." if waits else f"{counted}."
    all_ready = ready > 0 and ready + completed == total
    if conditions.is_true(ConditionType.RESTARTING):
        _set_false_if_there(draft, ConditionType.RUNNING, "TFJobRestarting", f"TFJob {draft.key} restarts. {detail}")
    elif is_running(groups):
        running = f"TFJob {draft.key} is running."
        conditions.set(
            ConditionType.RUNNING, "True", "TFJobRunning", running if all_ready and not waits else f"{running} {detail}"
        )
    elif waits or conditions.get(ConditionType.RUNNING) is not None:
        conditions.set(ConditionType.RUNNING, "False", "TFJobPending", f"TFJob {draft.key} does not run yet. {detail}")
    if all_ready:
        conditions.set(ConditionType.READY, "True", "TFJobReady", f"All replicas of TFJob {draft.key} are ready.")
    else:
        _set_false_if_there(draft, ConditionType.READY, "TFJobNotReady", f"{counted}.")
    _report_gang(draft)


def _report_gang(draft: Draft) -> None:
    """One event when the condition begins to say what the gang waits for: it remembers that, so there is no second."""
    before = find_condition(draft.job.status.conditions, ConditionType.RUNNING)
    now = draft.conditions.get(ConditionType.RUNNING)
    waits = draft.gang_waits or ""
    said = before is not None and waits in before.message
    if draft.gang_is_stuck and not said and now is not None and waits in now.message:
        draft.event("Warning", "Unschedulable", f"TFJob {draft.key}: {waits}.")


def report_end(draft: Draft, groups: Sequence[ReplicaGroup], failure: str | None) -> None:
    """The job has ended, well (`failure` is None) or not."""
    report_created(draft)
    _report_exits(draft, groups)
    conditions = draft.conditions
    if failure is None:
        condition, reason = ConditionType.SUCCEEDED, "TFJobSucceeded"
        message = f"TFJob {draft.key} successfully completed."
    else:
        condition, reason, message = ConditionType.FAILED, "TFJobFailed", failure
    for over in (ConditionType.RUNNING, ConditionType.READY, ConditionType.RESTARTING):
        _set_false_if_there(draft, over, reason, message)
    conditions.set(condition, "True", reason, message)
    # Normal even for a failure, as in the Go operator: alerts that exist count its events by type.
    draft.event("Normal", reason, message)


def _report_restarts(draft: Draft, groups: Sequence[ReplicaGroup]) -> None:
    """Set Restarting while a replica is on its way to a new pod; Running takes its place when all have theirs."""
    conditions = draft.conditions
    types = [
        group.type
        for group in groups
        if any(r.standing in (Standing.RESTARTING, Standing.VANISHED) for r in group.replicas)
    ]
    if types:
        message = f"job {draft.job.metadata.name} is restarting because {', '.join(types)} replica(s) failed."
        changed = conditions.set(ConditionType.RESTARTING, "True", "TFJobRestarting", message)
        if changed or any(replica.newly_restarting for group in groups for replica in group.replicas):
            draft.event("Warning", "TFJobRestarting", message)
    elif is_running(groups):
        conditions.remove(ConditionType.RESTARTING)
    _report_exits(draft, groups)
    _report_losses(draft, groups)


def _report_losses(draft: Draft, groups: Sequence[ReplicaGroup]) -> None:
    """Tell of replicas that have just failed for good, and that the job goes on without."""
    for group in groups:
        new = group.newly_failed
        if not new:
            continue
        parts = [f"{group.type}-{replica.index} ({replica.cause})" for replica in new[:_MAX_LOSSES]]
        more = f" and {len(new) - _MAX_LOSSES} more" if len(new) > _MAX_LOSSES else ""
        message = (
            f"{', '.join(parts)}{more} failed for good; {len(group.failed)} of {group.size} have. The job goes on."
        )
        draft.event("Warning", "ReplicaFailed", message)


def _report_exits(draft: Draft, groups: Sequence[ReplicaGroup]) -> None:
    """Tell the exit codes of pods whose end is news: of those that begin to restart, and of those lost for good."""
    namespace = draft.job.metadata.namespace
    exits = [
        f"Pod: {namespace}.{replica.pod.metadata.name} exited with code {replica.exit_code}"
        for group in groups
        for replica in group.replicas
        if replica.pod is not None
        and replica.exit_code is not None
        and (
            replica.newly_restarting
            or (replica.standing is Standing.FAILED and replica.index not in group.failed_before)
        )
    ]
    for message in exits[:_MAX_EXIT_EVENTS]:
        draft.event("Normal", "ExitedWithCode", message)
    if len(exits) > _MAX_EXIT_EVENTS:
        draft.event("Normal", "ExitedWithCode", f"{len(exits) - _MAX_EXIT_EVENTS} more pods exited")


def _set_false_if_there(draft: Draft, condition: ConditionType, reason: str, message: str) -> None:
    if draft.conditions.get(condition) is not None:
        draft.conditions.set(condition, "False", reason, message)
