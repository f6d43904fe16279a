"""Functions that read a job's conditions. Pure.

`status.conditions` has only the types of conditions that the Go operator has, because clients of the Go operator
interpret every type that they find in this list. All other types are in `status.operatorConditions`. `ConditionType`
has each type with its traits.
"""

from __future__ import annotations

import re

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import JobCondition, all_conditions, final_of, find_condition, status_of
from tfoperator.api.v1.types import TFJob

ACTIVE_TOO_LONG = "it was active longer than specified deadline"
"""If a job has exceeded its `activeDeadlineSeconds`, the message of its condition Failed contains this text, as in the
Go operator.
"""


BACKOFF_LIMIT_REACHED = "it has reached the specified backoff limit"
"""If a job has had more restarts than `backoffLimit`, the message of its condition Failed contains this text, as in the
Go operator.
"""

READY_COUNT = re.compile(r"\b(\d+/\d+) replicas ready\b")
"""Finds the counts in the message of the condition Running. If a running job's message has no counts, all its replicas
are ready."""


def condition_of(job: TFJob, condition: str) -> JobCondition | None:
    """Return the condition of that type, whatever its status, or None."""
    return find_condition(all_conditions(job.status), condition)


def ended_by_limit(failed: JobCondition) -> bool:
    """Return whether the job ended because of a limit of its spec; `failed` is the job's condition Failed.

    The limits are the active time, the time until the start, the time without progress, and the number of restarts.
    """
    limits = (ACTIVE_TOO_LONG, BACKOFF_LIMIT_REACHED)
    reasons = (JobReason.PROGRESS_DEADLINE_EXCEEDED, JobReason.START_DEADLINE_EXCEEDED)
    return failed.reason in reasons or any(limit in failed.message for limit in limits)


def has_condition(job: TFJob, condition: str) -> bool:
    """Return whether the condition is true."""
    return status_of(all_conditions(job.status), condition) == "True"


def ready_by_message(job: TFJob, wanted: int) -> str:
    """Return a text such as `3/4` from the message of the condition Running; `wanted` is the job's number of replicas.

    The result is empty if the counts are unknown. MultiKueue copies only those parts of a status that the Go operator
    has: in such a copy, only this message shows how many replicas are ready.
    """
    running = condition_of(job, ConditionType.RUNNING)
    if running is None:
        return ""
    counts = READY_COUNT.search(running.message)
    if counts is not None:
        return counts.group(1)
    return f"{wanted}/{wanted}" if running.message.endswith(" is running.") else ""


def final_condition(job: TFJob) -> JobCondition | None:
    """Return the condition with the job's outcome, None while the job has not ended (`final_of`)."""
    return final_of(job.status)
