"""Makes the plan from the proposals of all rules: the only place that decides between them. Pure.

`PRECEDENCE` has a row for each case in which two rules contradict each other, or in which a rule contradicts the state
of the caches.

Two kinds of actions are left to a later plan. That plan includes them, because it is made from the whole observed
state. So no action is lost, even if the operator crashes in between.

*Actions on stale caches.* If the cache does not show a creation yet, a new plan would repeat it. If the cache does not
show the deletion of a pod yet, the plan would treat the pod as alive.

*Deletions before logs.* If the log of a pod is not in the archive yet, the plan requests the log, and does not delete
the pod for now, at most for the archive's timeout. So worker threads don't wait for logs. The kubelet of a lost node
doesn't respond, and the logs of pods on a deleted node are lost with the node: such pods are deleted without archiving
their logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec

from tfoperator.api.v1.status import JobUsage
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.proposal import (
    Act,
    LookAgain,
    PrecedenceRow,
    Proposal,
    RemoveCondition,
    Replace,
    SetCondition,
    StatusFirst,
    StatusPart,
    Wanted,
    sooner,
)
from tfoperator.controller.plan.status.status import build_status, is_worth_writing, seconds_until_due
from tfoperator.controller.plan.values.actions import (
    NO_LOOKS,
    Action,
    Create,
    Delete,
    DeleteReason,
    Looks,
    Patch,
    Phase,
    PhaseName,
    Plan,
    PlannedEvent,
)
from tfoperator.controller.plan.values.conditions import Conditions, conditions_of, is_finished
from tfoperator.controller.plan.values.observed import Observed, Unseen
from tfoperator.kube.views.objects import Pod

_PHASES = tuple(PhaseName)
_NEEDED_BY_PODS = frozenset({PhaseName.POD_GROUP, PhaseName.NETWORK})


def combine(facts: Facts, proposals: Sequence[Proposal], usage: JobUsage | None) -> Plan:
    """Return the plan that follows from all proposals; its status includes `usage`."""
    wanted = _sorted(chain.from_iterable(proposals))
    for row in PRECEDENCE:
        wanted = row.apply(facts, wanted)
    plan = _plan(facts, wanted, usage)
    comparison = facts.observed.comparison
    if comparison is None:
        return plan
    status = msgspec.structs.replace(plan.status, last_reconcile_time=comparison.time.replace(microsecond=0))
    return msgspec.structs.replace(plan, status=status, write_status=plan.write_status or comparison.write)


def is_last_plan(plan: Plan, observed: Observed) -> bool:
    """Return whether no other plan follows after this plan is executed, until something else changes.

    Normally a new status alone leads to no other plan. There are three exceptions: the job ends with this status, so
    that its time to live begins; the job is in a queue of Kueue; or the replicas are watched for progress, and the
    status decides which of them stall or are slow.
    """
    if plan.phases or plan.looks != NO_LOOKS or plan.requeue_after is not None or observed.unseen != Unseen():
        return False
    if not plan.write_status:
        return True
    watched = observed.job.spec.policy.progress_deadline_seconds is not None or observed.reported is not None
    return not (watched or observed.gate is not None or is_finished(plan.status.conditions))


def _awaited_pods_stop_all(facts: Facts, wanted: Wanted) -> Wanted:
    if facts.absent and any(_is_awaited(facts, pod) for pod in _creations(wanted) if pod.kind == "pods"):
        return Wanted(is_as_before=True)
    return wanted


def _awaited_requests_first(facts: Facts, wanted: Wanted) -> Wanted:
    if not facts.observed.unseen.awaited:
        return wanted
    creations = [act for act in wanted.acts if isinstance(act, Act) and isinstance(act.action, Create)]
    unsure = {act.phase for act in creations if _is_awaited(facts, act.action)}
    needs_more = not unsure.isdisjoint(_NEEDED_BY_PODS)

    def waits(act: Act | Replace) -> bool:
        if needs_more and (isinstance(act, Replace) or act.phase is PhaseName.REPLICAS):
            return True
        return _is_awaited(facts, act.creation if isinstance(act, Replace) else act.action)

    return msgspec.structs.replace(wanted, acts=tuple(act for act in wanted.acts if not waits(act)))


def _logs_before_deletions(facts: Facts, wanted: Wanted) -> Wanted:
    unkept = facts.observed.pods_of_unkept_logs
    if not unkept:
        return wanted
    job = wanted.job_deletion
    if job is not None:
        keep = frozenset(pod.metadata.uid for pod in facts.observed.pods) & unkept
        return msgspec.structs.replace(wanted, acts=() if keep else (job,), keep=keep)
    pods = {_deleted_pod(act) for act in wanted.acts} & unkept
    acts = tuple(act for act in wanted.acts if _deleted_pod(act) not in pods)
    return msgspec.structs.replace(wanted, acts=acts, keep=frozenset(pods))


def _deletion_over_stop(facts: Facts, wanted: Wanted) -> Wanted:  # noqa: ARG001 - a row of the table
    stops = [act for act in wanted.acts if isinstance(act, Act) and act.phase is PhaseName.STOPS]
    if not stops:
        return wanted
    deleted = wanted.keep | {_deleted_pod(act) for act in wanted.acts}
    acts = tuple(act for act in wanted.acts if act not in stops or _uid(act) not in deleted)
    return msgspec.structs.replace(wanted, acts=acts)


def _end_of_the_job_object(facts: Facts, wanted: Wanted) -> Wanted:  # noqa: ARG001 - a row of the table
    job = wanted.job_deletion
    return wanted if job is None else Wanted(acts=(job,), is_as_before=True)


PRECEDENCE = (
    PrecedenceRow(
        "the deletion of the job",
        _end_of_the_job_object,
        "When the job is deleted, its objects are deleted with it, so other actions would be useless.",
    ),
    PrecedenceRow(
        "a pod that no cache shows yet",
        _awaited_pods_stop_all,
        "Such a pod must not count as lost, so all other actions wait until the cache shows it.",
    ),
    PrecedenceRow(
        "a request whose result no cache shows yet",
        _awaited_requests_first,
        "Without this rule, the plan would send the request a second time, or create a pod before the objects that the "
        "pod needs.",
    ),
    PrecedenceRow(
        "a log that is not kept yet",
        _logs_before_deletions,
        "The log is deleted with the pod. A lost node can't send the log, so a pod on such a node is deleted "
        "nevertheless.",
    ),
    PrecedenceRow(
        "the deletion of a pod",
        _deletion_over_stop,
        "Deleting a pod also stops it; a stop before the deletion would only produce another event.",
    ),
)
"""The rules of precedence, in the order in which they are applied."""


def _is_awaited(facts: Facts, action: Action) -> bool:
    """Return whether the caches lack a requested creation or deletion of objects of the action's kind and replica type.

    A patch needs no wait, because the API server refuses a patch of an older version.
    """
    awaited = facts.observed.unseen.awaited
    if not awaited or isinstance(action, Patch):
        return False
    replica_type = action.replica[0].lower() if action.replica is not None else ""
    return (replica_type, action.kind) in awaited


def _creations(wanted: Wanted) -> Iterable[Create]:
    for act in wanted.acts:
        action = act.creation if isinstance(act, Replace) else act.action
        if isinstance(action, Create):
            yield action


def _deleted_pod(act: Act | Replace) -> str:
    """Return the UID of the pod that this change deletes; "" if it deletes no pod, or a pod whose node is lost.

    The log of a pod on a lost node can't be read, so its deletion does not wait for the log.
    """
    action = act.deletion if isinstance(act, Replace) else act.action
    is_pods = isinstance(action, Delete) and action.kind == "pods" and action.reason is not DeleteReason.NODE_LOST
    return action.uid if is_pods and isinstance(action, Delete) else ""


def _uid(act: Act | Replace) -> str:
    action = act.deletion if isinstance(act, Replace) else act.action
    return "" if isinstance(action, Create) else action.uid


def _plan(facts: Facts, wanted: Wanted, usage: JobUsage | None) -> Plan:
    observed, job = facts.observed, facts.job
    conditions = _conditions(facts, wanted)
    status = job.status if wanted.is_as_before else build_status(facts, conditions, wanted.parts, usage)
    phases, write = _phases(wanted), not wanted.is_as_before and is_worth_writing(job.status, status)
    transitions = conditions.became_true() if write else frozenset()
    look_again = wanted.look_again
    if wanted.keep and observed.unkept_logs is not None:
        look_again = sooner(look_again, observed.unkept_logs.timeout)
    if write and not wanted.is_status_first and not wanted.events:
        left = seconds_until_due(observed, status, transitions, facts.options, acts=bool(phases))
        if left > 0:
            write, transitions = False, frozenset()
            look_again = sooner(look_again, left)
    keep = tuple(pod for pod in observed.pods if pod.metadata.uid in wanted.keep) if wanted.keep else ()
    return Plan(
        status=status,
        phases=phases,
        looks=Looks(keep, wanted.read, wanted.newer_than, wanted.stacks),
        write_status_first=write and wanted.is_status_first,
        write_status=write,
        events=wanted.events,
        requeue_after=look_again,
        absent=() if wanted.is_as_before else facts.absent,
        transitions=transitions,
    )


def _sorted(wants: Iterable[Any]) -> Wanted:
    """Return the wanted changes, sorted by kind."""
    acts: list[Act | Replace] = []
    conditions: list[SetCondition | RemoveCondition] = []
    events: list[PlannedEvent] = []
    parts: dict[str, Any] = {}
    read: tuple[Pod, ...] = ()
    stacks: tuple[Pod, ...] = ()
    look_again: float | None = None
    newer_than: datetime | None = None
    is_status_first = False
    for want in wants:
        match want:
            case SetCondition() | RemoveCondition():
                conditions.append(want)
            case Act():
                acts.append(want)
                is_status_first = is_status_first or want.phase in _RECORDED_FIRST
            case LookAgain():
                look_again = sooner(look_again, want.seconds)
            case PlannedEvent():
                events.append(want)
            case Replace():
                acts.append(want)
                is_status_first = True
            case StatusFirst():
                is_status_first = True
            case StatusPart():
                parts |= want.members
            case Looks():
                read, newer_than = (*read, *want.read), want.newer_than or newer_than
                stacks = (*stacks, *want.stacks)
    return Wanted(
        acts=tuple(acts),
        conditions=tuple(conditions),
        events=tuple(events),
        parts=parts,
        look_again=look_again,
        read=read,
        newer_than=newer_than,
        stacks=stacks,
        is_status_first=is_status_first,
    )


_RECORDED_FIRST = (PhaseName.DELETIONS, PhaseName.STOPS)
"""Phases whose reason has to be in the status before they are carried out."""


def _conditions(facts: Facts, wanted: Wanted) -> Conditions:
    conditions = conditions_of(facts.conditions, facts.now)
    for want in wanted.conditions:
        if isinstance(want, RemoveCondition):
            conditions = conditions.without(want.condition)
        elif not want.if_there or conditions.has(want.condition):
            conditions = conditions.having(want.condition, want.status, want.reason, want.message)
    return conditions


def _phases(wanted: Wanted) -> tuple[Phase, ...]:
    """Return the phases of a plan (groups of actions, which are executed one after the other).

    If two proposals delete the same object, the reason of the later proposal counts.
    """
    deletions: dict[str, Action] = {}
    replicas: dict[str, tuple[Action, ...]] = {}
    others: dict[PhaseName, list[Action]] = {}
    for act in wanted.acts:
        if isinstance(act, Replace):
            # The service and the pod of a replica have the same name. Rules yield the service first, so it is created
            # first.
            replicas[act.creation.name] = (*replicas.get(act.creation.name, ()), act.deletion, act.creation)
        elif act.phase is PhaseName.REPLICAS:
            replicas[act.action.name] = (*replicas.get(act.action.name, ()), act.action)
        elif isinstance(act.action, Delete) and act.phase is PhaseName.DELETIONS:
            deletions[act.action.uid] = act.action
        else:
            others.setdefault(act.phase, []).append(act.action)
    phases = []
    for name in _PHASES:
        if name is PhaseName.REPLICAS and replicas:
            phases.append(Phase(name, tuple(replicas.values()), slow_start=True, needs=_NEEDED_BY_PODS))
        elif name is PhaseName.DELETIONS and deletions:
            phases.append(Phase(name, tuple((action,) for action in deletions.values())))
        elif name in others:
            phases.append(Phase(name, tuple((action,) for action in others[name])))
    return tuple(phases)
