"""Reports a job's progress in conditions and events; uses the Go operator's text if there is such a text.

Created, Running, Restarting, Succeeded, Failed and Suspended have the same meaning as in the Go operator. Running and
Restarting are never true at the same time. This operator also reports facts that the Go operator does not report. If a
job doesn't run yet, Running is False, and its message has the reasons. The message of Running also has the number of
replicas that are ready. Ready is true if all replicas are ready or have succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tfoperator.api.kueue.queues import queue_name
from tfoperator.api.replicas.names import parse_replica_type
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import PASSING_CONDITIONS, ConditionType
from tfoperator.api.v1.reasons import ForeignReason, JobReason
from tfoperator.api.v1.status import WaitingReplicas
from tfoperator.api.waiting import Reason, ReasonKind, about_job, text_of, waiting_for
from tfoperator.controller.plan.elastic.elastic_reports import restarting_for_size, size_note
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.progress import pods_to_look_into
from tfoperator.controller.plan.facts.proposal import (
    LookAgain,
    RemoveCondition,
    SetCondition,
    StatusPart,
    Want,
    differs,
    event,
    observation,
)
from tfoperator.controller.plan.objects.gang import ignored_topology, report_gang
from tfoperator.controller.plan.replicas.replicas import (
    ReplicaGroup,
    ReplicaState,
    restarting_because,
    seconds_to_next_reason,
    waiting_reasons,
)
from tfoperator.controller.plan.restarts.in_place_reports import (
    report_old_kubelets,
    report_old_server,
    report_restarts_in_place,
    report_returns,
)
from tfoperator.controller.plan.restarts.lone_restarts import warn_of_lone_restarts
from tfoperator.controller.plan.status.status import counted, readiness
from tfoperator.controller.plan.status.suspension import resumption
from tfoperator.controller.plan.values.actions import Looks
from tfoperator.controller.plan.verdicts.verdict import absent_leaders
from tfoperator.controller.pods.manifests import CHIEF_TYPES, restarts_in_place

_MAX_EXIT_EVENTS = 5
_MAX_LOSSES = 3

_RUNNING_STATES = (ReplicaState.RUNNING,)
_RESTART_STATES = (ReplicaState.RESTARTING, ReplicaState.VANISHED)


def report_created(facts: Facts) -> Iterator[Want]:
    """Report that the job was created: the first report about each job."""
    if facts.condition(ConditionType.CREATED) is not None:
        return
    message = f"TFJob {facts.job.metadata.name} is created."
    yield SetCondition(ConditionType.CREATED, "True", JobReason.CREATED, message)
    yield from _uncounted(facts)
    if not facts.options.restart_rules and restarts_in_place(facts.job):
        yield report_old_server()


def _uncounted(facts: Facts) -> Iterator[Want]:
    """Report replica types that Kueue's own integration of TFJobs does not count: the job spells them `worker` or `ps`.

    The report is made when the job is created and when the job is resumed.
    """
    queue, uncounted = queue_name(facts.job.metadata.labels), facts.observed.uncounted_types
    if queue and uncounted and facts.observed.gate is None:
        counted_types = ", ".join(str(parse_replica_type(key)) for key in uncounted)
        message = f"queue {queue} doesn't count the pods of {', '.join(uncounted)}, which run without quota"
        yield event(
            JobReason.NOT_COUNTED_BY_QUEUE, f"{message}: Kueue knows these types only by the names {counted_types}."
        )


def report_admission(facts: Facts) -> Iterator[Want]:
    """Set the condition Admitted when the job's queue has admitted the job; remove it from a job without a queue."""
    gate = facts.observed.gate
    if gate is None:
        yield RemoveCondition(ConditionType.ADMITTED)
        return
    message = f"TFJob {facts.job.metadata.name} is admitted by ClusterQueue {gate.message}."
    admitted = SetCondition(ConditionType.ADMITTED, "True", ForeignReason(gate.reason), message)
    yield admitted
    if differs(facts, admitted):
        yield event(JobReason.ADMITTED, message)


def report_resumption(facts: Facts) -> Iterator[Want]:
    """Report that the job is resumed."""
    if facts.resumed and facts.is_true(ConditionType.SUSPENDED):
        yield from resumption(facts)
        yield from _uncounted(facts)


def report_progress(facts: Facts) -> Iterator[Want]:
    """Report the progress of an active job, and the reason if it waits."""
    groups, gang, key = facts.groups, facts.gang, facts.job.metadata.key
    restarts = list(_restarts(facts))
    yield from restarts
    if (next_reason := seconds_to_next_reason(groups, facts.now)) is not None:
        # A replica that is starting gets a reason after some time, even if no event comes.
        yield LookAgain(next_reason)
    ready, completed, total = readiness(groups)
    absent = " or ".join(absent_leaders(facts.job, groups))
    ignored = "" if facts.options.gang is None else ignored_topology(facts, facts.options.gang)
    of_job = (
        (ReasonKind.NO_LEADER, f"the job now has no {absent} replica" if absent else ""),
        (ReasonKind.OLD_PODS, "all replicas restart when the last old pod is gone" if facts.restart.old else ""),
        (ReasonKind.NO_TOPOLOGY, ignored),
        (ReasonKind.FEWER_WORKERS, "" if facts.size is None else size_note(facts.size)),
    )
    waiting = (*(about_job(Reason(kind, text)) for kind, text in of_job if text), *_waiting(facts))
    waits = text_of(waiting)
    failed = sum(len(group.failed) for group in groups)
    counts = counted(ready, total, completed, failed)
    detail = f"{counts}; {waits}." if waits else f"{counts}."
    all_ready = ready > 0 and ready + completed == total
    running = _running(facts, detail, is_complete=all_ready and not waits, waits=bool(waits), restarts=restarts)
    if running is not None:
        yield running
    if waiting:
        yield StatusPart({"waiting": waiting})
    if all_ready:
        yield observation(ConditionType.READY, f"All replicas of TFJob {key} are ready.", holds=True)
    else:
        yield observation(ConditionType.READY, f"{counts}.", holds=False, if_there=True)
    if gang is not None and gang.is_stuck:
        yield from report_gang(facts, waiting, ReasonKind.GANG, JobReason.UNSCHEDULABLE)
    if ignored:
        yield from report_gang(facts, waiting, ReasonKind.NO_TOPOLOGY, JobReason.TOPOLOGY_IGNORED)


def _running(
    facts: Facts, detail: str, *, is_complete: bool, waits: bool, restarts: Sequence[Want]
) -> SetCondition | None:
    """Return the condition Running as it must be now; None if the job does not need this condition yet.

    `detail` is a text with the number of ready replicas and the reasons why the job waits. `waits` means that there is
    such a reason. `is_complete` means that all replicas are ready and the job does not wait; then the message lacks
    `detail`. `restarts` has the changes of the condition Restarting.
    """
    key = facts.job.metadata.key
    if _is_restarting(facts, restarts):
        # A job that has never run gets the condition, too, because its message has the reasons why the job does not
        # run.
        message = f"TFJob {key} restarts. {detail}"
        return SetCondition(ConditionType.RUNNING, "False", JobReason.RESTARTING, message)
    if _is_running(facts.groups):
        message = f"TFJob {key} is running."
        message = message if is_complete else f"{message} {detail}"
        return SetCondition(ConditionType.RUNNING, "True", JobReason.RUNNING, message)
    if waits or facts.condition(ConditionType.RUNNING) is not None:
        message = f"TFJob {key} does not run yet. {detail}"
        return SetCondition(ConditionType.RUNNING, "False", JobReason.PENDING, message)
    return None


def _waiting(facts: Facts) -> tuple[WaitingReplicas, ...]:
    """Return the entries of the new `status.waiting` about replicas that wait."""
    before, gang = facts.job.status.waiting, None if facts.gang is None else facts.gang.waits
    return waiting_for(waiting_reasons(facts.groups, facts.observed.not_created, facts.now, before, gang=gang), before)


def watch_deadlines(facts: Facts) -> Iterator[Want]:
    """Request a sync for the time when a deadline of the job is over.

    If the job waits for the stacks of its programs' threads before it ends because of `activeDeadlineSeconds`, also
    request these stacks.
    """
    if (to_start := facts.start_left) is not None:
        yield LookAgain(to_start)
    if facts.left_for_stacks is not None:
        yield Looks(stacks=pods_to_look_into(facts.groups))
        yield LookAgain(facts.left_for_stacks)
    elif (left := facts.deadline_left) is not None:
        yield LookAgain(left)


def report_end(facts: Facts) -> Iterator[Want]:
    """Report that the job has ended, with success or failure."""
    yield from _in_place(facts)
    yield from _exits(facts)
    verdict = facts.verdict
    if verdict.failure is None:
        condition, reason = ConditionType.SUCCEEDED, JobReason.SUCCEEDED
        message = f"TFJob {facts.job.metadata.key} successfully completed."
    else:
        condition, reason, message = ConditionType.FAILED, verdict.reason, verdict.failure
    yield event(reason, message)
    for over in PASSING_CONDITIONS:
        yield SetCondition(over, "False", reason, message, if_there=True)
    yield SetCondition(condition, "True", reason, message)


def _is_running(groups: Sequence[ReplicaGroup]) -> bool:
    """Return whether the job is Running as in the Go operator.

    A job that has chiefs is Running if a chief runs. A job with workers but without chiefs is Running if a worker runs.
    Any other job is Running if any replica runs. If all chiefs have succeeded, and the job still waits for
    `minSucceededWorkers`, the job is Running if a worker runs.
    """
    chiefs = [group for group in groups if group.type in CHIEF_TYPES and group.succeeded < group.size]
    workers = [group for group in groups if group.type is ReplicaType.WORKER and group.size > 0]
    return any(_has_any(group, _RUNNING_STATES) for group in chiefs or workers or groups)


def _has_any(group: ReplicaGroup, states: Sequence[ReplicaState]) -> bool:
    """Return whether a replica of the type is in one of these states."""
    # This is faster than `any(replica.state in states for ...)`, because the generator yields only for a replica that
    # matches.
    return any(True for replica in group.replicas if replica.state in states)


def _restarts(facts: Facts) -> Iterator[Want]:
    """Set the condition Restarting while a replica that restarts has no new pod yet.

    When all replicas have their pods, the condition Running replaces the condition Restarting.
    """
    groups, restart, name = facts.groups, facts.restart, facts.job.metadata.name
    lost = [(group, replica) for group in groups for replica in group.replicas if replica.state in _RESTART_STATES]
    is_restart = restart.causes or facts.resumed or facts.is_true(ConditionType.RESTARTING)
    if facts.size is not None and facts.size.changes and is_restart:
        yield from restarting_for_size(facts, facts.size)
    elif restart.causes:
        causes = ", ".join(restart.causes[:_MAX_LOSSES])
        more = f" and {len(restart.causes) - _MAX_LOSSES} more" if len(restart.causes) > _MAX_LOSSES else ""
        taken = " This counts as a disruption, not as a failure." if restart.is_disruption else ""
        message = f"job {name} is restarting all its replicas because of {causes}{more}.{taken}"
        yield SetCondition(ConditionType.RESTARTING, "True", JobReason.RESTARTING, message)
        yield event(JobReason.RESTARTING, message)
    elif lost:
        new = [entry for entry in lost if entry[1].newly_restarting]
        # If no restart is new, the condition keeps the reason of the recorded restart: the pods may not show it any
        # more.
        if new or not facts.is_true(ConditionType.RESTARTING):
            message = restarting_because(name, new or lost)
            yield SetCondition(ConditionType.RESTARTING, "True", JobReason.RESTARTING, message)
            yield event(JobReason.RESTARTING, message)
    elif _is_running(groups) and not _awaits_successors(groups):
        yield RemoveCondition(ConditionType.RESTARTING)
    unaided = [replica for _, replica in lost if replica.unaided]
    if unaided and not facts.job.status.restarts:
        yield report_old_kubelets(unaided)
    yield from _in_place(facts)
    yield from _exits(facts)
    yield from _losses(groups)
    if any(group.completed for group in groups):
        yield from warn_of_lone_restarts(facts)


def _in_place(facts: Facts) -> Iterator[Want]:
    """Report the restarts in place that are new."""
    if any(group.may_count_in_place for group in facts.groups):
        yield from report_returns(facts)
        yield from report_restarts_in_place(facts.groups)


def _is_restarting(facts: Facts, restarts: Iterable[Want]) -> bool:
    """Return whether the condition Restarting is true after the changes in `restarts`."""
    for want in restarts:
        if isinstance(want, SetCondition | RemoveCondition) and want.condition is ConditionType.RESTARTING:
            return isinstance(want, SetCondition)
    return facts.is_true(ConditionType.RESTARTING)


def _awaits_successors(groups: Sequence[ReplicaGroup]) -> bool:
    """Return whether a replica with a counted restart has lost its old pod, and does not have its new pod yet."""
    return any(
        True
        for group in groups
        for replica in group.replicas
        if replica.state is ReplicaState.MISSING and replica.cause
    )


def _losses(groups: Sequence[ReplicaGroup]) -> Iterator[Want]:
    """Report replicas that have just failed for good; the job continues without them."""
    for group in groups:
        new = group.newly_failed
        if not new:
            continue
        parts = [f"{group.type}-{replica.index} ({replica.cause})" for replica in new[:_MAX_LOSSES]]
        more = f" and {len(new) - _MAX_LOSSES} more" if len(new) > _MAX_LOSSES else ""
        yield event(
            JobReason.REPLICA_FAILED,
            f"{', '.join(parts)}{more} failed for good, so {len(group.failed)} of {group.size} have failed. The job "
            "goes on.",
        )


def _exits(facts: Facts) -> Iterator[Want]:
    """Report the exit codes of pods whose end is new. Their replicas begin to restart, or have failed for good.

    Skip containers that the kubelet restarts in place: these restarts have events of their own. If the job has ended,
    report these containers, too, because the kubelet does not restart them.
    """
    namespace, ended = facts.job.metadata.namespace, facts.verdict.stage.is_end
    exits = [
        f"Pod: {namespace}.{replica.pod.metadata.name} exited with code {replica.exit_code}"
        for group in facts.groups
        for replica in group.replicas
        if replica.exit_code is not None
        and replica.pod is not None
        and (
            (replica.newly_restarting and (ended or not replica.by_kubelet))
            or (replica.state is ReplicaState.FAILED and replica.index not in group.record.failed)
        )
    ]
    for message in exits[:_MAX_EXIT_EVENTS]:
        yield event(JobReason.EXITED_WITH_CODE, message)
    if len(exits) > _MAX_EXIT_EVENTS:
        yield event(JobReason.EXITED_WITH_CODE, f"{len(exits) - _MAX_EXIT_EVENTS} more pods exited")
