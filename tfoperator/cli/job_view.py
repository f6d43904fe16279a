"""A TFJob in the columns and lines that `get` and `describe` print. Pure."""

from __future__ import annotations

from datetime import datetime

from tfoperator.api.v1.types import TFJob
from tfoperator.cli.ages import age, duration
from tfoperator.sdk.states import condition_of, job_state

__all__ = ["HEADER", "STATE_COLUMN", "WIDE_HEADER", "job_row", "ready_text", "replicas_text", "state_message", "took"]

HEADER = ("NAME", "STATE", "READY", "RESTARTS", "AGE")
WIDE_HEADER = (*HEADER, "DURATION", "REPLICAS", "MESSAGE")
STATE_COLUMN = HEADER.index("STATE")


def job_row(job: TFJob, now: datetime, *, wide: bool = False, state: str = "") -> tuple[str, ...]:
    """The cells of one job under HEADER or WIDE_HEADER."""
    shown = state or job_state(job)
    restarts, since = str(job.status.restarts), age(job.metadata.creation_timestamp, now)
    row = (job.metadata.name, shown, ready_text(job), restarts, since)
    return (*row, took(job, now), replicas_text(job), state_message(job)) if wide else row


def ready_text(job: TFJob) -> str:
    """`3/4`: how many replicas are ready, of how many."""
    if job.status.ready:
        return job.status.ready
    ready = sum(status.ready for status in job.status.replica_statuses.values())
    return f"{ready}/{sum(_wanted(job).values())}"


def replicas_text(job: TFJob) -> str:
    """`1 PS, 2 Worker`."""
    return ", ".join(f"{count} {kind}" for kind, count in _wanted(job).items()) or "-"


def state_message(job: TFJob) -> str:
    """What the condition that is the job's state says."""
    condition = condition_of(job, job_state(job))
    return condition.message if condition is not None else ""


def took(job: TFJob, now: datetime) -> str:
    """How long the job has run, or ran."""
    if job.status.start_time is None:
        return "-"
    return duration(((job.status.completion_time or now) - job.status.start_time).total_seconds())


def _wanted(job: TFJob) -> dict[str, int]:
    specs = job.spec.tf_replica_specs
    return {kind: 1 if spec.replicas is None else spec.replicas for kind, spec in specs.items() if spec is not None}
