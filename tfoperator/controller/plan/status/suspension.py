"""Reports that a job is suspended, or waits in its queue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tfoperator.api.kueue.queues import queue_name
from tfoperator.api.v1.condition_types import ConditionType, Fate
from tfoperator.api.v1.reasons import ForeignReason, JobReason
from tfoperator.api.v1.status import JobCondition
from tfoperator.base.clock import seconds_between
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.proposal import LookAgain, RemoveCondition, SetCondition, Want, differs, event
from tfoperator.controller.plan.restarts.in_place_reports import report_restarts_in_place
from tfoperator.controller.plan.values.conditions import is_held
from tfoperator.controller.plan.values.observed import QueueGate

_NUMBER = re.compile(r"\b\d+(\.\d+)?([KMGTPE]i|[kMGTPEmun])?\b")
"""Matches a number, or a quantity of Kubernetes such as `500m` or `16Gi`."""


def report_suspension(facts: Facts) -> Iterator[Want]:
    """Report that the job is suspended, waits in its queue, or is resumed and waits until its old pods are gone."""
    if any(group.may_count_in_place for group in facts.groups):
        yield from report_restarts_in_place(facts.groups)
    name, by_user, gate = facts.job.metadata.name, facts.job.spec.suspended, facts.observed.gate
    if gate is not None and not by_user:
        leaving = QueueGate("PodsLeaving", "its old pods still exist")
        yield from _queue(facts, leaving if gate.admitted else gate)
        return
    message = f"TFJob {name} is suspended."
    yield from _held(ConditionType, JobReason.SUSPENDED, message)
    if is_held(facts.conditions) and not by_user:
        waits = f"TFJob {name} will be resumed when its last old pod is gone."
        yield SetCondition(ConditionType.SUSPENDED, "True", JobReason.SUSPENDED, waits)
        return
    suspended = SetCondition(ConditionType.SUSPENDED, "True", JobReason.SUSPENDED, message)
    yield suspended
    if differs(facts, suspended):
        yield event(JobReason.SUSPENDED, message)


def resumption(facts: Facts) -> Iterator[Want]:
    """Report that the job is no longer suspended."""
    message = f"TFJob {facts.job.metadata.name} is resumed."
    yield SetCondition(ConditionType.SUSPENDED, "False", JobReason.RESUMED, message)
    yield event(JobReason.RESUMED, message)


def _queue(facts: Facts, gate: QueueGate) -> Iterator[Want]:
    """Report that the job waits in its queue, or must return to it."""
    queue = queue_name(facts.job.metadata.labels)
    message = f"TFJob {facts.job.metadata.name} waits in queue {queue}: {gate.message}"
    admitted = facts.condition(ConditionType.ADMITTED)
    if (left := _seconds_until_written(facts, admitted, gate.reason, message)) > 0 and admitted is not None:
        message = admitted.message
        yield LookAgain(left)
    if facts.is_true(ConditionType.SUSPENDED):
        yield from resumption(facts)
    # The condition Admitted is left out here: it gets the queue's own reason below.
    others = [kind for kind in ConditionType if kind is not ConditionType.ADMITTED]
    yield from _held(others, JobReason.QUEUED, message)
    if admitted is None or admitted.status != "False":
        yield event(JobReason.QUEUED, message)
    yield SetCondition(ConditionType.ADMITTED, "False", ForeignReason(gate.reason), message)


def _seconds_until_written(facts: Facts, old: JobCondition | None, reason: str, message: str) -> float:
    """Return for how many seconds a text is not written because it differs from the old text only in numbers.

    Kueue writes how much quota is missing. With each job that ends, these numbers change for every job that waits.
    """
    if old is None or (old.status, old.reason) != ("False", reason) or old.message == message:
        return 0.0
    if _NUMBER.sub("", old.message) != _NUMBER.sub("", message):
        return 0.0
    return facts.options.queue_text_period - seconds_between(old.last_update_time or facts.now, facts.now)


def _held(kinds: Iterable[ConditionType], reason: JobReason, message: str) -> Iterator[Want]:
    """Change the conditions of a job that is suspended or waits in its queue: they show that the job does not run."""
    for kind in kinds:
        match kind.traits.while_held:
            case Fate.FALSE:
                yield SetCondition(kind, "False", reason, message, if_there=True)
            case Fate.REMOVED:
                yield RemoveCondition(kind)
            case Fate.STAYS:
                pass
