"""Handles a job with an invalid spec: reports it once, and creates nothing for it.

A job that never started gets Failed, with the problems in the message: its users should know at once, and an API server
with our CRD would have refused it. One that has started is frozen instead: its pods and services stay as they are until
the spec makes sense again, because a mistake in an edit (or a newer operator that asks for more) must not cost days of
training. Running, the phase, and our own conditions about what goes on are Unknown meanwhile. Only suspending it is
still possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tfoperator.api.v1.condition_types import PASSING_CONDITIONS, ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import whole_second
from tfoperator.controller.plan.conditions import Conditions
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.reporting import report_created
from tfoperator.controller.plan.status import phase_of

_MAX_TEXT = 1000


def plan_invalid(draft: Draft, problems: Sequence[str]) -> TFJobStatus:
    """Report the problems (one or more, each `field: message`), and leave everything else alone; returns the status."""
    job = draft.job
    draft.conditions = Conditions(job.status, _moment(draft))
    report_created(draft)
    text = problems_text(problems)
    # Of a job whose status can't be read, or is yet to be written, its pods are the only sign that it has started.
    if job.status.start_time is None and not draft.observed.pods:
        return _fail(draft, f"TFJob {draft.key} is invalid: {text}")
    message = f"TFJob {draft.key} is left alone until its spec is valid again: {text}"
    if draft.conditions.set(ConditionType.RUNNING, "Unknown", JobReason.INVALID, message):
        draft.event(JobReason.INVALID, message)
    for condition in (one for one in PASSING_CONDITIONS if not one.traits.is_peers):
        if draft.conditions.get(condition) is not None:
            draft.conditions.set(condition, "Unknown", JobReason.INVALID, message)
    status = draft.conditions.written_to(job.status)
    return msgspec.structs.replace(
        status,
        phase=phase_of(status.conditions, status.replica_statuses.values()),
        observed_generation=job.metadata.generation,
    )


def _fail(draft: Draft, message: str) -> TFJobStatus:
    draft.conditions.set(ConditionType.FAILED, "True", JobReason.INVALID, message)
    draft.event(JobReason.INVALID, message)
    return msgspec.structs.replace(
        draft.conditions.written_to(draft.job.status),
        phase="Failed",
        completion_time=whole_second(_moment(draft)),
        observed_generation=draft.job.metadata.generation,
    )


def _moment(draft: Draft) -> datetime:
    """Return the time of the report.

    A job whose status can't be decoded either shows no conditions, so this report looks new at every sync. With a
    time that stays the same its write changes nothing, and a write that changes nothing causes no event: no loop.
    """
    job: TFJob = draft.job
    if job.decode_error and not job.status.conditions and job.metadata.creation_timestamp is not None:
        return job.metadata.creation_timestamp
    return draft.now


def problems_text(problems: Sequence[str]) -> str:
    """Return the problems of a job, on one line that fits into a condition."""
    text = "; ".join(" ".join(problem.split()) for problem in problems)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
