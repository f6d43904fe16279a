"""Handles a job with an invalid spec: reports the problems once, and creates nothing for the job.

If the job never started, it becomes Failed, with the problems in the message: its users should learn of them at once,
and an API server with the operator's CRD would have refused the job. If the job has started, it does not become Failed:
its pods and services stay as they are until the spec is valid again. A mistake in an edit (or a newer operator with
stricter rules) must not cost days of training. Until the spec is valid again, these are Unknown: Running, the job's
phase, and the operator's own conditions about a running job. A user can still suspend the job.
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
    """Report the problems of the spec (at least one, each `field: message`), and change nothing else."""
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

    If the job's status can't be read, or was not written yet, only the job's pods show this.
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
    """Return the time of the report: `now`, or the job's creation time if the spec and the status can't be decoded.

    A status that can't be decoded shows no conditions, so the report looks new at every sync. With a time that never
    changes, the second write of the report changes nothing. A write without a change causes no watch event, so it does
    not lead to another sync.
    """
    if job.decode_error and not job.status.conditions and job.metadata.creation_timestamp is not None:
        return job.metadata.creation_timestamp
    return now


def problems_text(problems: Sequence[str]) -> str:
    """Return the problems of a job, on one line that fits into a condition."""
    text = "; ".join(" ".join(problem.split()) for problem in problems)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
