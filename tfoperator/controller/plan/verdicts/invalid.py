"""Handles a job with an invalid spec: reports it once, and creates nothing for it.

A job that never started gets Failed, with the problems in the message: its users should know at once, and an API server
with our CRD would have refused it. A job that has started is frozen instead: its pods and services stay as they are
until the spec makes sense again, because a mistake in an edit (or a newer operator that asks for more) must not cost
days of training. Running, the phase, and our own conditions about what goes on are Unknown meanwhile. Only suspending
it is still possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tfoperator.api.v1.condition_types import PASSING_CONDITIONS, ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import all_conditions
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.facts.facts import Facts, Stage, Verdict
from tfoperator.controller.plan.facts.proposal import SetCondition, Want, differs, event
from tfoperator.controller.plan.values.observed import Observed, PlanOptions

_MAX_TEXT = 1000


def report_invalid(facts: Facts) -> Iterator[Want]:
    """Report the problems of the spec (one or more, each `field: message`), and leave everything else alone."""
    key, text = facts.job.metadata.key, problems_text(facts.problems)
    if not has_started(facts):
        message = f"TFJob {key} is invalid: {text}"
        yield SetCondition(ConditionType.FAILED, "True", JobReason.INVALID, message)
        yield event(JobReason.INVALID, message)
        return
    message = f"The operator does nothing for TFJob {key} until its spec is valid again: {text}"
    running = SetCondition(ConditionType.RUNNING, "Unknown", JobReason.INVALID, message)
    yield running
    if differs(facts, running):
        yield event(JobReason.INVALID, message)
    for condition in (kind for kind in PASSING_CONDITIONS if not kind.traits.is_peers):
        yield SetCondition(condition, "Unknown", JobReason.INVALID, message, if_there=True)


def has_started(facts: Facts) -> bool:
    """Return whether an invalid job had started.

    Of a job whose status can't be read, or is yet to be written, its pods are the only sign.
    """
    return facts.job.status.start_time is not None or bool(facts.observed.pods)


def invalid_facts(observed: Observed, now: datetime, options: PlanOptions, problems: Sequence[str]) -> Facts:
    """Return the facts about a job with these problems (one or more)."""
    conditions = all_conditions(observed.job.status)
    return Facts(
        observed,
        _moment(observed.job, now),
        options,
        conditions=conditions,
        verdict=Verdict(Stage.INVALID),
        problems=tuple(problems),
    )


def _moment(job: TFJob, now: datetime) -> datetime:
    """Return the time of the report.

    A job whose status can't be decoded either shows no conditions, so this report looks new at every sync. With a
    time that stays the same its write changes nothing, and a write that changes nothing causes no event: no loop.
    """
    if job.decode_error and not job.status.conditions and job.metadata.creation_timestamp is not None:
        return job.metadata.creation_timestamp
    return now


def problems_text(problems: Sequence[str]) -> str:
    """Return the problems of a job, on one line that fits into a condition."""
    text = "; ".join(" ".join(problem.split()) for problem in problems)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
