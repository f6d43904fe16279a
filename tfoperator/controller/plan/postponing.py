"""What a plan leaves for a later one: actions on stale caches, deletions before logs, statuses without news or haste.

*Actions on stale caches.* A creation that no cache shows yet would be made a second time, and a pod that was deleted
and is not seen so would be taken for alive.

*Deletions before logs.* A pod whose log is not in the archive yet is kept for now, and its log is asked for. The next
plan finds the pod still to be deleted, because a plan is made from the whole observed state. So nobody waits for a log
while holding a worker thread, and a crash in between forgets nothing.

*Statuses without news.* That a job is created is news to nobody who has just created it. Its pods run a moment later,
where pods start at once, and one status write for both spares the API server its most expensive request: of nine calls
per small job one, and a tenth of the CPU that the job costs it.

*Statuses without haste.* That more replicas of a large job are active or ready is written at most once in each
`counts_period`. The change is not lost: each plan until then finds it again, and one is made when the time is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tfoperator.api.v1.types import ConditionType
from tfoperator.controller.plan.actions import (
    Action,
    Create,
    Delete,
    DeleteReason,
    KeepLogs,
    Phase,
    PhaseName,
    Plan,
)
from tfoperator.controller.plan.observed import Comparison, Observed, PlanOptions, UnkeptLogs, Unseen
from tfoperator.controller.plan.status import only_counts_rise
from tfoperator.kube.objects import Pod

_NO_NEWS = frozenset({ConditionType.CREATED})


def postpone(plan: Plan, observed: Observed, options: PlanOptions) -> Plan:
    """The plan without what has to wait, and with what has to come instead."""
    plan = _without_unseen(plan, observed)
    plan = _logs_before_deletions(plan, observed)
    return _decide_status_write(plan, observed, options)


def with_own_deletions(observed: Observed, now: datetime) -> Observed:
    """The same with each pod marked as terminating that this process has deleted.

    Taken for alive, a pod of a job that was suspended and resumed at once would count as started again, and its
    end, once it is seen, as a loss.
    """
    deleted = observed.unseen.deleted
    if not deleted:
        return observed

    def marked(pod: Pod) -> Pod:
        meta = pod.metadata
        if meta.deletion_timestamp is not None or meta.uid not in deleted:
            return pod
        return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, deletion_timestamp=now))

    return msgspec.structs.replace(observed, pods=tuple(map(marked, observed.pods)))


def _without_unseen(plan: Plan, observed: Observed) -> Plan:
    """The plan without what would act on a cache that does not show this process's own last writes yet."""
    unseen = observed.unseen
    if not unseen.awaited:
        return plan
    if plan.absent and any(_creates_pod(action) and _is_awaited(action, unseen) for action in plan.actions):
        # A pod that is not seen yet must not be counted as lost: wait for the cache with everything.
        return Plan(status=observed.job.status)
    unsure = {phase.name for phase in plan.phases if any(_awaits_creation(action, unseen) for action in phase.actions)}
    phases = (
        msgspec.structs.replace(
            phase,
            chains=tuple(
                kept
                for chain in phase.chains
                if (kept := tuple(action for action in chain if not _is_awaited(action, unseen)))
            ),
        )
        for phase in plan.phases
        if phase.needs.isdisjoint(unsure)
    )
    return msgspec.structs.replace(plan, phases=tuple(phase for phase in phases if phase.chains))


def _awaits_creation(action: Action, unseen: Unseen) -> bool:
    return isinstance(action, Create) and _is_awaited(action, unseen)


def _creates_pod(action: Action) -> bool:
    return isinstance(action, Create) and action.kind == "pods"


def _is_awaited(action: Action, unseen: Unseen) -> bool:
    """Whether objects of this kind and replica type are awaited; a patch made from an older version is refused."""
    if not isinstance(action, Create | Delete):
        return False
    replica_type = action.replica[0].lower() if action.replica is not None else ""
    return (replica_type, action.kind) in unseen.awaited


def _logs_before_deletions(plan: Plan, observed: Observed) -> Plan:
    """The plan with `KeepLogs` in the place of deletions that have to wait, at most for the archive's timeout.

    Deleting a job takes all of its pods. A lost node doesn't answer, and a node that is gone has its pods' logs.
    """
    unkept = observed.unkept_logs
    if unkept is None or not unkept.pods:
        return plan
    deletions = [action for action in plan.actions if isinstance(action, Delete)]
    if any(deletion.kind == "tfjobs" for deletion in deletions):
        waiting = [pod for pod in observed.pods if pod.metadata.uid in unkept.pods]
        return _with_logs_first(msgspec.structs.replace(plan, phases=()), waiting, unkept) if waiting else plan
    uids = {one.uid for one in deletions if one.kind == "pods" and one.reason is not DeleteReason.NODE_LOST}
    waiting = [pod for pod in observed.pods if pod.metadata.uid in uids & unkept.pods]
    return _with_logs_first(plan, waiting, unkept) if waiting else plan


def _with_logs_first(plan: Plan, waiting: Sequence[Pod], unkept: UnkeptLogs) -> Plan:
    uids = {pod.metadata.uid for pod in waiting}

    def stays(chain: Sequence[Action]) -> bool:
        return not any(isinstance(action, Delete) and action.uid in uids for action in chain)

    others = (
        msgspec.structs.replace(phase, chains=tuple(chain for chain in phase.chains if stays(chain)))
        for phase in plan.phases
    )
    logs = Phase(PhaseName.LOGS, tuple((KeepLogs(kind="pods", name=pod.metadata.name, pod=pod),) for pod in waiting))
    later = unkept.timeout if plan.requeue_after is None else min(plan.requeue_after, unkept.timeout)
    return msgspec.structs.replace(
        plan, phases=(logs, *(phase for phase in others if phase.chains)), requeue_after=later
    )


def _decide_status_write(plan: Plan, observed: Observed, options: PlanOptions) -> Plan:
    """The plan with its status write held back if it may wait, and with a comparison recorded if there is one."""
    left = options.first_status_period - observed.known_for
    waits = left > 0 and _is_first(plan, observed)
    if not waits:
        left = options.counts_period - observed.status_age
        waits = left > 0 and _has_only_counts(plan, observed)
    if waits:
        soon = left if plan.requeue_after is None else min(left, plan.requeue_after)
        plan = msgspec.structs.replace(plan, write_status=False, transitions=frozenset(), requeue_after=soon)
    return plan if observed.comparison is None else _with_comparison(plan, observed.comparison)


def _is_first(plan: Plan, observed: Observed) -> bool:
    """Whether the plan's status is the first of the job and says no more than that it is there and under way.

    What must be durable before something else is done never waits, nor does what comes with an event.
    """
    return (
        plan.write_status
        and not plan.write_status_first
        and not plan.events
        and not observed.job.status.conditions
        and plan.transitions <= _NO_NEWS
    )


def _has_only_counts(plan: Plan, observed: Observed) -> bool:
    """Whether the plan does nothing but write a status, which says only that more replicas do their work.

    A plan that does something else may fail, and is then repeated when the API server says, not when the status is due.
    """
    if not plan.write_status or plan.write_status_first or plan.events or plan.transitions or plan.changes_objects:
        return False
    comparison = observed.comparison
    if comparison is not None and comparison.write:
        return False
    return only_counts_rise(observed.job.status, plan.status, observed.job.spec)


def _with_comparison(plan: Plan, comparison: Comparison) -> Plan:
    status = msgspec.structs.replace(plan.status, last_reconcile_time=comparison.time.replace(microsecond=0))
    return msgspec.structs.replace(plan, status=status, write_status=plan.write_status or comparison.write)
