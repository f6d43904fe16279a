"""Reports a job's progress: conditions and events, with the Go operator's texts where it has any.

Created, Running, Restarting, Succeeded, Failed and Suspended mean what they mean there. Running and Restarting
exclude each other. Unlike there, a job that doesn't run yet says why (Running is False then, with the reasons in its
message), Running counts the replicas, and Ready says that all of them do their work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfoperator.api.names import parse_replica_type
from tfoperator.api.queues import queue_name
from tfoperator.api.v1.condition_types import PASSING_CONDITIONS, ConditionType, Fate
from tfoperator.api.v1.reasons import ForeignReason, JobReason
from tfoperator.api.v1.status import all_conditions, find_condition, status_of
from tfoperator.api.v1.types import ReplicaType
from tfoperator.api.waiting import summary
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.facts import Facts, Verdict
from tfoperator.controller.plan.gang import ignored_topology, report_gang
from tfoperator.controller.plan.in_place_reports import (
    report_old_kubelets,
    report_old_server,
    report_restarts_in_place,
    report_returns,
)
from tfoperator.controller.plan.lone_restarts import warn_of_lone_restarts
from tfoperator.controller.plan.observed import QueueGate
from tfoperator.controller.plan.progress import Stall, StallState
from tfoperator.controller.plan.replicas import (
    JobRestart,
    ReplicaGroup,
    ReplicaState,
    restarting_because,
    seconds_to_next_reason,
    waiting_reasons,
)
from tfoperator.controller.plan.status import counted, readiness
from tfoperator.controller.plan.verdict import absent_leaders
from tfoperator.controller.pods.manifests import CHIEF_TYPES, restarts_in_place

_MAX_EXIT_EVENTS = 5
_MAX_LOSSES = 3
_RUNNING_STATES = (ReplicaState.RUNNING,)
_RESTART_STATES = (ReplicaState.RESTARTING, ReplicaState.VANISHED)


def report_created(draft: Draft) -> None:
    """Report that the job was created, the first report about any job."""
    if draft.conditions.get(ConditionType.CREATED) is None:
        name = draft.job.metadata.name
        draft.conditions.set(ConditionType.CREATED, "True", JobReason.CREATED, f"TFJob {name} is created.")
        _report_uncounted(draft)
        if not draft.options.restart_rules and restarts_in_place(draft.job):
            report_old_server(draft)


def _report_uncounted(draft: Draft) -> None:
    """Report the pods that no quota counts, when Kueue is about to count the job, or to start it."""
    queue, uncounted = queue_name(draft.job.metadata.labels), draft.observed.uncounted_types
    if queue and uncounted and draft.observed.gate is None:
        known = ", ".join(str(parse_replica_type(key)) for key in uncounted)
        message = f"queue {queue} doesn't count the pods of {', '.join(uncounted)}, which run without quota"
        draft.event(JobReason.NOT_COUNTED_BY_QUEUE, f"{message}: Kueue knows {known} only.")


def report_suspension(draft: Draft, groups: Sequence[ReplicaGroup]) -> None:
    """Report that the job is suspended, or waits in its queue, or is resumed and waits for the end of its old pods."""
    report_created(draft)
    _report_in_place(draft, groups)
    conditions = draft.conditions
    name, by_user, gate = draft.job.metadata.name, draft.job.spec.suspended, draft.observed.gate
    message = f"TFJob {name} is suspended."
    if gate is not None and not by_user:
        _report_queue(draft, QueueGate("PodsLeaving", "its old pods are still there") if gate.admitted else gate)
        return
    _end_what_goes_on(draft, ConditionType, JobReason.SUSPENDED, message)
    if draft.conditions.held_before and not by_user:
        waits = f"TFJob {name} is resumed when the last of its old pods is gone."
        conditions.set(ConditionType.SUSPENDED, "True", JobReason.SUSPENDED, waits)
    elif conditions.set(ConditionType.SUSPENDED, "True", JobReason.SUSPENDED, message):
        draft.event(JobReason.SUSPENDED, message)


def _report_resumption(draft: Draft) -> None:
    message = f"TFJob {draft.job.metadata.name} is resumed."
    draft.conditions.set(ConditionType.SUSPENDED, "False", JobReason.RESUMED, message)
    draft.event(JobReason.RESUMED, message)


def _report_queue(draft: Draft, gate: QueueGate) -> None:
    """Report that the job waits in its queue, or has to go back to it."""
    name, conditions = draft.job.metadata.name, draft.conditions
    message = f"TFJob {name} waits in queue {queue_name(draft.job.metadata.labels)}: {gate.message}"
    if conditions.is_true(ConditionType.SUSPENDED):
        _report_resumption(draft)
    # That the job isn't admitted has the queue's own reason, below.
    others = [one for one in ConditionType if one is not ConditionType.ADMITTED]
    _end_what_goes_on(draft, others, JobReason.QUEUED, message)
    if status_of(all_conditions(draft.job.status), ConditionType.ADMITTED) != "False":
        draft.event(JobReason.QUEUED, message)
    conditions.set(ConditionType.ADMITTED, "False", ForeignReason(gate.reason), message)


def report_progress(draft: Draft, facts: Facts) -> None:
    """Report the progress of an active job, and the reason if it waits."""
    report_created(draft)
    groups, restart = facts.groups, facts.restart
    conditions = draft.conditions
    gate = draft.observed.gate
    if gate is not None:
        message = f"TFJob {draft.job.metadata.name} is admitted by ClusterQueue {gate.message}."
        if conditions.set(ConditionType.ADMITTED, "True", ForeignReason(gate.reason), message):
            draft.event(JobReason.ADMITTED, message)
    else:
        conditions.remove(ConditionType.ADMITTED)
    if facts.resumed and conditions.is_true(ConditionType.SUSPENDED):
        _report_resumption(draft)
        _report_uncounted(draft)
    _report_restarts(draft, groups, restart)
    ready, completed, total = readiness(groups)
    absent = " or ".join(absent_leaders(draft.job, groups))
    waiting = (
        f"the job has no {absent} replica now" if absent else "",
        "all replicas start again when the last old pod is gone" if restart.old else "",
        ignored := "" if draft.options.gang is None else ignored_topology(draft, draft.options.gang),
        _waiting(draft, groups),
    )
    waits = "; ".join(filter(None, waiting))
    failed = sum(len(group.failed) for group in groups)
    counts = counted(ready, total, completed, failed)
    detail = f"{counts}; {waits}." if waits else f"{counts}."
    all_ready = ready > 0 and ready + completed == total
    if conditions.is_true(ConditionType.RESTARTING):
        # Also of a job that has never run, since this condition has the reasons why it doesn't.
        conditions.set(ConditionType.RUNNING, "False", JobReason.RESTARTING, f"TFJob {draft.key} restarts. {detail}")
    elif _is_running(groups):
        running = f"TFJob {draft.key} is running."
        conditions.set(
            ConditionType.RUNNING,
            "True",
            JobReason.RUNNING,
            running if all_ready and not waits else f"{running} {detail}",
        )
    elif waits or conditions.get(ConditionType.RUNNING) is not None:
        conditions.set(
            ConditionType.RUNNING, "False", JobReason.PENDING, f"TFJob {draft.key} does not run yet. {detail}"
        )
    if all_ready:
        conditions.set(ConditionType.READY, "True", JobReason.READY, f"All replicas of TFJob {draft.key} are ready.")
    else:
        _set_false_if_there(draft, ConditionType.READY, JobReason.NOT_READY, f"{counts}.")
    if draft.gang_is_stuck:
        report_gang(draft, JobReason.UNSCHEDULABLE, draft.gang_waits or "")
    if ignored:
        report_gang(draft, JobReason.TOPOLOGY_IGNORED, ignored)


def _waiting(draft: Draft, groups: Sequence[ReplicaGroup]) -> str:
    """Return why replicas wait, and have the job planned again when time alone makes a reason of it."""
    if (next_reason := seconds_to_next_reason(groups, draft.now)) is not None:
        draft.requeue_in(next_reason)
    running = find_condition(draft.job.status.conditions, ConditionType.RUNNING)
    before = "" if running is None else running.message
    reasons = waiting_reasons(groups, draft.observed.not_created, draft.now, before, gang=draft.gang_waits)
    return summary(reasons, before)


def watch_progress(draft: Draft, stall: Stall) -> None:
    """Report whether an active job makes progress, and request what is needed to find out."""
    conditions, name = draft.conditions, draft.job.metadata.name
    match stall.state:
        case StallState.STALLED:
            if not conditions.is_true(ConditionType.STALLED):
                draft.event(JobReason.STALLED, stall.message)
            conditions.set(ConditionType.STALLED, "True", JobReason.PROGRESS_DEADLINE_EXCEEDED, stall.message)
        case StallState.UNKNOWN:
            if conditions.set(ConditionType.STALLED, "Unknown", JobReason.NOTHING_TO_TELL, stall.message):
                draft.event(JobReason.PROGRESS_UNKNOWN, stall.message)
        case StallState.GOES_ON:
            if conditions.is_true(ConditionType.STALLED):
                draft.event(JobReason.PROGRESS_RESUMED, f"TFJob {name} makes progress again.")
            _set_false_if_there(
                draft, ConditionType.STALLED, JobReason.PROGRESS_RESUMED, f"TFJob {name} makes progress."
            )
        case StallState.NOT_RUNNING:
            message = f"Not everything that TFJob {name} needs runs; its time without progress starts anew then."
            _set_false_if_there(draft, ConditionType.STALLED, JobReason.NOT_RUNNING, message)
        case StallState.NOT_WATCHED:
            conditions.remove(ConditionType.STALLED)
    if stall.look_again is not None:
        draft.requeue_in(stall.look_again)
    draft.read_logs, draft.newer_than = stall.look_at, stall.newer_than
    draft.stacks += stall.stacks_of


def report_end(draft: Draft, groups: Sequence[ReplicaGroup], verdict: Verdict) -> None:
    """Report that the job has ended, with success or failure."""
    report_created(draft)
    if any(one.has_returned for group in groups for one in group.replicas):
        report_returns(draft, groups, ended=True)
    _report_in_place(draft, groups)
    _report_exits(draft, groups, ended=True)
    conditions = draft.conditions
    if verdict.failure is None:
        condition, reason = ConditionType.SUCCEEDED, JobReason.SUCCEEDED
        message = f"TFJob {draft.key} successfully completed."
    else:
        condition, reason, message = ConditionType.FAILED, verdict.reason, verdict.failure
    draft.event(reason, message)
    for over in PASSING_CONDITIONS:
        _set_false_if_there(draft, over, reason, message)
    conditions.set(condition, "True", reason, message)


def _is_running(groups: Sequence[ReplicaGroup]) -> bool:
    """Return the Go operator's Running: a chief runs; without chiefs any worker; without either, any replica."""
    chiefs = [group for group in groups if group.type in CHIEF_TYPES and group.size > 0]
    workers = [group for group in groups if group.type is ReplicaType.WORKER and group.size > 0]
    return any(_has_any(group, _RUNNING_STATES) for group in chiefs or workers or groups)


def _has_any(group: ReplicaGroup, states: Sequence[ReplicaState]) -> bool:
    """Return whether a replica of the type is in one of these states."""
    # The generator goes over the others by itself, where `any` would have to resume it for each.
    return any(True for replica in group.replicas if replica.state in states)


def _report_restarts(draft: Draft, groups: Sequence[ReplicaGroup], restart: JobRestart) -> None:
    """Set Restarting while a replica is on its way to a new pod; Running takes its place when all have theirs."""
    conditions = draft.conditions
    lost = [(group, one) for group in groups for one in group.replicas if one.state in _RESTART_STATES]
    if restart.causes:
        causes = ", ".join(restart.causes[:_MAX_LOSSES])
        more = f" and {len(restart.causes) - _MAX_LOSSES} more" if len(restart.causes) > _MAX_LOSSES else ""
        taken = " That is a disruption, and no failure." if restart.is_disruption else ""
        message = f"job {draft.job.metadata.name} is restarting all its replicas because of {causes}{more}.{taken}"
        conditions.set(ConditionType.RESTARTING, "True", JobReason.RESTARTING, message)
        draft.event(JobReason.RESTARTING, message)
    elif lost:
        new = [one for one in lost if one[1].newly_restarting]
        # A recorded restart already has its reason in the condition, which its pod may not show any more.
        if new or not conditions.is_true(ConditionType.RESTARTING):
            message = restarting_because(draft.job.metadata.name, new or lost)
            conditions.set(ConditionType.RESTARTING, "True", JobReason.RESTARTING, message)
            draft.event(JobReason.RESTARTING, message)
    elif _is_running(groups) and not _awaits_successors(groups):
        conditions.remove(ConditionType.RESTARTING)
    unaided = [replica for group in groups for replica in group.replicas if replica.unaided]
    if unaided and not draft.job.status.restarts:
        report_old_kubelets(draft, unaided)
    if any(one.has_returned for group in groups for one in group.replicas):
        report_returns(draft, groups)
    _report_in_place(draft, groups)
    _report_exits(draft, groups)
    _report_losses(draft, groups)
    if any(group.completed for group in groups):
        warn_of_lone_restarts(draft, groups)


def _report_in_place(draft: Draft, groups: Sequence[ReplicaGroup]) -> None:
    if any(group.may_count_in_place for group in groups):
        report_restarts_in_place(draft, groups)


def _awaits_successors(groups: Sequence[ReplicaGroup]) -> bool:
    """Return whether the pod of a replica whose restart is counted has gone, and its successor is not there yet."""
    return any(True for group in groups for one in group.replicas if one.state is ReplicaState.MISSING and one.cause)


def _report_losses(draft: Draft, groups: Sequence[ReplicaGroup]) -> None:
    """Report replicas that have just failed for good, and that the job continues without them."""
    for group in groups:
        new = group.newly_failed
        if not new:
            continue
        parts = [f"{group.type}-{replica.index} ({replica.cause})" for replica in new[:_MAX_LOSSES]]
        more = f" and {len(new) - _MAX_LOSSES} more" if len(new) > _MAX_LOSSES else ""
        message = (
            f"{', '.join(parts)}{more} failed for good; {len(group.failed)} of {group.size} have. The job goes on."
        )
        draft.event(JobReason.REPLICA_FAILED, message)


def _report_exits(draft: Draft, groups: Sequence[ReplicaGroup], *, ended: bool = False) -> None:
    """Report the exit codes of pods whose end is new: of those that begin to restart, and of those lost for good.

    Restarts in place have an event of their own, unless the job has `ended`, so that none follows.
    """
    namespace = draft.job.metadata.namespace
    exits = [
        f"Pod: {namespace}.{replica.pod.metadata.name} exited with code {replica.exit_code}"
        for group in groups
        for replica in group.replicas
        if replica.pod is not None
        and replica.exit_code is not None
        and (
            (replica.newly_restarting and (ended or not replica.by_kubelet))
            or (replica.state is ReplicaState.FAILED and replica.index not in group.record.failed)
        )
    ]
    for message in exits[:_MAX_EXIT_EVENTS]:
        draft.event(JobReason.EXITED_WITH_CODE, message)
    if len(exits) > _MAX_EXIT_EVENTS:
        draft.event(JobReason.EXITED_WITH_CODE, f"{len(exits) - _MAX_EXIT_EVENTS} more pods exited")


def _end_what_goes_on(draft: Draft, kinds: Iterable[ConditionType], reason: JobReason, message: str) -> None:
    """Have the conditions of a job that is suspended, or waits in its queue, say that nothing goes on."""
    for kind in kinds:
        match kind.traits.while_held:
            case Fate.FALSE:
                _set_false_if_there(draft, kind, reason, message)
            case Fate.REMOVED:
                draft.conditions.remove(kind)
            case Fate.STAYS:
                pass


def _set_false_if_there(draft: Draft, condition: ConditionType, reason: JobReason, message: str) -> None:
    if draft.conditions.get(condition) is not None:
        draft.conditions.set(condition, "False", reason, message)
