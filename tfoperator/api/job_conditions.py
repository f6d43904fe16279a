"""Functions that read a job's conditions. Pure."""

from __future__ import annotations

from tfoperator.api.v1.status import JobCondition, find_condition, status_of
from tfoperator.api.v1.types import ConditionType, TFJob

PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
"""The reason of the conditions Stalled, and Failed, of a job without progress for too long, as with Deployments."""

START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
"""The reason of the condition Failed of a job not all of whose replicas have started in `startDeadlineSeconds`."""

ACTIVE_TOO_LONG = "it was active longer than specified deadline"
"""Part of the message of the condition Failed of a job past its `activeDeadlineSeconds`: the Go operator's text."""


BACKOFF_LIMIT_REACHED = "it has reached the specified backoff limit"
"""In the message of the condition Failed of a job with more restarts than `backoffLimit`: the Go operator's words."""


def condition_of(job: TFJob, condition: str) -> JobCondition | None:
    """Return the condition of that type, whatever its status, or None."""
    return find_condition(job.status.conditions, condition)


def ended_by_limit(failed: JobCondition) -> bool:
    """Return whether a limit of the spec (time, time without progress, restarts) ended the job, not a replica."""
    limits = (ACTIVE_TOO_LONG, BACKOFF_LIMIT_REACHED)
    reasons = (PROGRESS_DEADLINE_EXCEEDED, START_DEADLINE_EXCEEDED)
    return failed.reason in reasons or any(limit in failed.message for limit in limits)


def has_condition(job: TFJob, condition: str) -> bool:
    """Return whether the condition is true."""
    return status_of(job.status.conditions, condition) == "True"


def final_condition(job: TFJob) -> JobCondition | None:
    """Return the condition with a job's outcome, None while it has not ended. Of two that are true, Failed counts."""
    true = {found.type: found for found in job.status.conditions if found.status == "True"}
    return true.get(ConditionType.FAILED) or true.get(ConditionType.SUCCEEDED)
