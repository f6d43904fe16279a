"""The rules of each stage of a job's life: a rule that is not in this table is not applied. Pure.

A rule is a function of facts that yields what it wants (proposal.py). Where two rules want different things, a row of
`PRECEDENCE` (combine.py) decides, and no rule has to know the others. The order of the rules is the order of their
events, of conditions that become true, and of the deletions of a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfoperator.controller.plan.actions import DeleteReason, Looks
from tfoperator.controller.plan.cleanup import clean_up, expire, release_everything
from tfoperator.controller.plan.divergence import report_divergence
from tfoperator.controller.plan.facts import Facts, Stage
from tfoperator.controller.plan.gang import plan_pod_group
from tfoperator.controller.plan.invalid import report_invalid
from tfoperator.controller.plan.progress import pods_to_look_into
from tfoperator.controller.plan.proposal import STATUS_FIRST, LookAgain, Proposal, Rule, Want, delete
from tfoperator.controller.plan.reporting import (
    report_admission,
    report_created,
    report_end,
    report_progress,
    report_resumption,
    report_stall,
    report_suspension,
)
from tfoperator.controller.plan.restart import overdue_seconds
from tfoperator.controller.plan.scaling import plan_replicas, report_edits
from tfoperator.controller.plan.stragglers import report_stragglers
from tfoperator.controller.plan.tensorboard import plan_tensorboard


def propose(facts: Facts) -> tuple[Proposal, ...]:
    """Return the proposals of the rules of the job's stage. Raises PodTemplateError if a body can't be made."""
    return tuple(tuple(rule(facts)) for rule in RULES[facts.verdict.stage])


def free_lost_pods(facts: Facts) -> Iterator[Want]:
    """Force the deletion of pods on a lost node that are past their grace period: no kubelet will confirm their end."""
    if facts.is_unreadable:
        return
    for pod in facts.observed.pods:
        overdue = overdue_seconds(pod, facts.now, facts.options)
        if overdue is None:
            continue
        if overdue >= 0:
            yield from delete("pods", pod, DeleteReason.NODE_LOST, grace=0)
        else:
            yield LookAgain(-overdue)


def count_first(facts: Facts) -> Iterator[Want]:
    """Write a resumption, a restart of all and a disruption before anything is done.

    Otherwise a pod could be created that is taken for an old one, or be lost before its predecessor is counted.
    """
    if facts.resumed or facts.restart.causes or any(group.has_new_disruption for group in facts.groups):
        yield STATUS_FIRST
    if facts.held > 0:
        yield LookAgain(facts.held)


def watch_deadlines(facts: Facts) -> Iterator[Want]:
    """Look again when a deadline of the job is over; take the stacks of its threads before its end."""
    if (to_start := facts.start_left) is not None:
        yield LookAgain(to_start)
    if facts.left_for_stacks is not None:
        yield Looks(stacks=pods_to_look_into(facts.groups))
        yield LookAgain(facts.left_for_stacks)
    elif (left := facts.deadline_left) is not None:
        yield LookAgain(left)


_END: tuple[Rule, ...] = (plan_tensorboard, report_created, report_end, free_lost_pods, clean_up, expire)

RULES: Mapping[Stage, tuple[Rule, ...]] = {
    Stage.ACTIVE: (
        plan_tensorboard,
        free_lost_pods,
        count_first,
        plan_pod_group,
        plan_replicas,
        report_created,
        report_admission,
        report_resumption,
        report_progress,
        report_edits,
        report_stall,
        report_stragglers,
        report_divergence,
        watch_deadlines,
    ),
    Stage.SUSPENDED: (plan_tensorboard, report_created, report_suspension, free_lost_pods, release_everything),
    Stage.SUCCEEDED: _END,
    Stage.FAILED: _END,
    Stage.FINISHED: (expire, free_lost_pods, clean_up, plan_tensorboard),
    Stage.INVALID: (report_created, report_invalid),
}
"""The rules by stage."""
