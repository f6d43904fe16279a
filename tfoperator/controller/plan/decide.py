"""Decides everything that happens to a TFJob, as a function from values to a value.

`plan()` has no clock, no client and no log, so tables and properties can test its behaviour. A sync is "look, decide,
act", and all decisions are in one place. It is level-triggered: it reads the whole observed state, and never the last
event. So if an event is missed, or the process crashes between two actions, the result is the same, only later.

A plan is made in three steps, each of which returns frozen values:

1. Facts (`look`, look.py): what is observed, and what follows from that: the replicas with their states, the restarts,
   the deadlines, and at last the verdict about the job (`verdicts`), which contains the job's stage.
2. Proposals (`propose`): each rule of that stage (`RULES`) reads the facts, and yields the changes that it proposes. A
   rule never reads the proposals of other rules.
3. The plan (`combine`, combine.py): if two rules contradict each other, this step decides which rule wins.

The job's usage is computed separately: it has no effect on decisions, and is written together with the status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from tfoperator.api.fields.limits import MANAGED_BY_OPERATOR
from tfoperator.api.replicas.names import is_probe
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.combine import combine
from tfoperator.controller.plan.elastic.elastic_reports import forget_size, plan_probes, record_size, remove_probes
from tfoperator.controller.plan.facts.facts import Facts, Stage
from tfoperator.controller.plan.facts.progress import NOT_WATCHED
from tfoperator.controller.plan.facts.proposal import Proposal, Rule
from tfoperator.controller.plan.look import look
from tfoperator.controller.plan.objects.cleanup import clean_up, expire, release_everything
from tfoperator.controller.plan.objects.data_service import plan_data_service, rest_data_service
from tfoperator.controller.plan.objects.gang import plan_pod_group
from tfoperator.controller.plan.objects.scaling import count_first, free_lost_pods, plan_replicas, report_edits
from tfoperator.controller.plan.objects.tensorboard import plan_tensorboard
from tfoperator.controller.plan.restarts.stragglers import report_stragglers
from tfoperator.controller.plan.status.reporting import (
    report_admission,
    report_created,
    report_end,
    report_progress,
    report_resumption,
    watch_deadlines,
)
from tfoperator.controller.plan.status.suspension import report_suspension
from tfoperator.controller.plan.training.divergence import report_divergence
from tfoperator.controller.plan.training.stall_reports import report_stall
from tfoperator.controller.plan.training.usage import account, with_goodput
from tfoperator.controller.plan.values.actions import Plan
from tfoperator.controller.plan.values.observed import Observed, PlanOptions
from tfoperator.controller.plan.verdicts.invalid import invalid_facts, report_invalid
from tfoperator.controller.pods.template import PodTemplateError


def plan(observed: Observed, now: datetime, options: PlanOptions) -> Plan:
    """Return the plan for the job at the time `now` (UTC), for any state of the job and its pods.

    For a job that is being deleted, or that another controller manages, the plan changes nothing. The function raises
    only NotKept: if it needs a template of which the job has only a hash.
    """
    job = observed.job
    if job.metadata.deletion_timestamp is not None or is_managed_by_others(job):
        # The garbage collector deletes the pods and services of a deleted job, because their owner references name the
        # job.
        return Plan(status=job.status)
    try:
        facts = look(observed, now, options)
        proposals = propose(facts)
    except PodTemplateError as error:
        # Discard all proposals: to carry out only some of them would be wrong.
        facts = invalid_facts(observed, now, options, (str(error),))
        proposals = propose(facts)
    return with_goodput(combine(facts, proposals, account(facts)), now)


def is_managed_by_others(job: TFJob) -> bool:
    """Return whether `runPolicy.managedBy` gives the job to another controller."""
    return (job.spec.policy.managed_by or MANAGED_BY_OPERATOR) != MANAGED_BY_OPERATOR


def propose(facts: Facts) -> tuple[Proposal, ...]:
    """Return the proposals of the rules of the job's stage.

    Raises PodTemplateError if the body of a pod or service can't be made.
    """
    entries = RULES[facts.verdict.stage]
    return tuple(tuple(entry.rule(facts)) for entry in entries if entry.when is None or entry.when(facts))


class Entry(NamedTuple):
    """A rule of the table; if its `when` returns False, the rule is skipped, and costs only the time of that check."""

    rule: Rule
    when: Callable[[Facts], bool] | None = None


def _has_tensorboard(facts: Facts) -> bool:
    return facts.tensorboard is not None


def _has_data_service(facts: Facts) -> bool:
    return facts.data_service is not None


def _is_readable(facts: Facts) -> bool:
    """Return whether the spec could be decoded, so that policies such as `cleanPodPolicy` are known."""
    return not facts.job.decode_error


def _has_edits(facts: Facts) -> bool:
    return bool(facts.observed.edited_templates)


def _is_gang(facts: Facts) -> bool:
    return facts.gang is not None


def _is_watched(facts: Facts) -> bool:
    return facts.stall is not NOT_WATCHED or facts.condition(ConditionType.STALLED) is not None


def _has_stragglers(facts: Facts) -> bool:
    if facts.node_failures or facts.condition(ConditionType.STRAGGLING) is not None:
        return True
    reported = facts.observed.reported
    return reported is not None and bool(reported.slow)


def _may_diverge(facts: Facts) -> bool:
    reported = facts.observed.reported
    if reported is None:
        return False
    return bool(reported.loss_not_a_number) or facts.condition(ConditionType.DIVERGED) is not None


def _has_time_to_live(facts: Facts) -> bool:
    return facts.job.spec.policy.ttl_seconds_after_finished is not None


def _is_elastic(facts: Facts) -> bool:
    return facts.size is not None or facts.job.status.elastic is not None or _has_probes(facts)


def _has_size(facts: Facts) -> bool:
    return facts.size is not None


def _has_probes(facts: Facts) -> bool:
    """Return whether the job has probes. A job that is no longer elastic may have probes whose deletion has failed."""
    return any(True for pod in facts.observed.pods if is_probe(pod.metadata.annotations))


_TENSORBOARD = Entry(plan_tensorboard, _has_tensorboard)
_RESTING_DATA_SERVICE = Entry(rest_data_service, _has_data_service)
_END = (
    _TENSORBOARD,
    _RESTING_DATA_SERVICE,
    Entry(report_created),
    Entry(report_end),
    Entry(free_lost_pods),
    Entry(remove_probes, _is_elastic),
    Entry(clean_up),
    Entry(expire, _has_time_to_live),
)

RULES: Mapping[Stage, tuple[Entry, ...]] = {
    Stage.ACTIVE: (
        _TENSORBOARD,
        Entry(free_lost_pods),
        Entry(count_first),
        Entry(record_size, _is_elastic),
        Entry(plan_pod_group, _is_gang),
        Entry(plan_replicas),
        Entry(plan_data_service, _has_data_service),
        Entry(plan_probes, _has_size),
        Entry(report_created),
        Entry(report_admission),
        Entry(report_resumption),
        Entry(report_progress),
        Entry(report_edits, _has_edits),
        Entry(report_stall, _is_watched),
        Entry(report_stragglers, _has_stragglers),
        Entry(report_divergence, _may_diverge),
        Entry(watch_deadlines),
    ),
    Stage.SUSPENDED: (
        _TENSORBOARD,
        _RESTING_DATA_SERVICE,
        Entry(report_created),
        Entry(report_suspension),
        Entry(forget_size, _is_elastic),
        Entry(free_lost_pods),
        Entry(release_everything),
    ),
    Stage.SUCCEEDED: _END,
    Stage.FAILED: _END,
    Stage.FINISHED: (
        Entry(expire, _has_time_to_live),
        Entry(free_lost_pods, _is_readable),
        Entry(remove_probes, _has_probes),
        Entry(clean_up, _is_readable),
        _TENSORBOARD,
    ),
    Stage.INVALID: (Entry(report_created), Entry(report_invalid)),
}
"""The rules by stage: a rule that is not here is not applied.

The order of the rules is the order of a plan's events, of the conditions that become true, and of deletions. The order
has no other effect: rules need not know each other, and `PRECEDENCE` (combine.py) decides if two rules contradict each
other.
"""
