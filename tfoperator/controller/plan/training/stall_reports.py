"""Reports whether an active job makes progress."""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.progress import StallState
from tfoperator.controller.plan.facts.proposal import LookAgain, RemoveCondition, SetCondition, Want, differs, event
from tfoperator.controller.plan.values.actions import Looks


def report_stall(facts: Facts) -> Iterator[Want]:
    """Report whether an active job makes progress, and request the logs and stacks that the operator needs for this."""
    stall, name = facts.stall, facts.job.metadata.name
    match stall.state:
        case StallState.STALLED:
            if not facts.is_true(ConditionType.STALLED):
                yield event(JobReason.STALLED, stall.message)
            reason = JobReason.PROGRESS_DEADLINE_EXCEEDED
            yield SetCondition(ConditionType.STALLED, "True", reason, stall.message)
        case StallState.UNKNOWN:
            unknown = SetCondition(ConditionType.STALLED, "Unknown", JobReason.NOTHING_TO_TELL, stall.message)
            yield unknown
            if differs(facts, unknown):
                yield event(JobReason.PROGRESS_UNKNOWN, stall.message)
        case StallState.GOES_ON:
            if facts.is_true(ConditionType.STALLED):
                yield event(JobReason.PROGRESS_RESUMED, f"TFJob {name} makes progress again.")
            message = f"TFJob {name} makes progress."
            yield SetCondition(ConditionType.STALLED, "False", JobReason.PROGRESS_RESUMED, message, if_there=True)
        case StallState.NOT_RUNNING:
            again = "the time without progress starts at zero when all of them run"
            message = f"TFJob {name} has replicas that do not run; {again}."
            yield SetCondition(ConditionType.STALLED, "False", JobReason.NOT_RUNNING, message, if_there=True)
        case StallState.NOT_WATCHED:
            yield RemoveCondition(ConditionType.STALLED)
    if stall.look_again is not None:
        yield LookAgain(stall.look_again)
    if stall.look_at or stall.stacks_of or stall.newer_than is not None:
        yield Looks(read=stall.look_at, newer_than=stall.newer_than, stacks=stall.stacks_of)
