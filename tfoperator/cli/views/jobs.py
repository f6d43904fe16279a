"""A TFJob in the columns and lines that `get` and `describe` print. Pure."""

from __future__ import annotations

from datetime import datetime

from tfoperator.api.job_conditions import condition_of
from tfoperator.api.v1.types import TFJob
from tfoperator.cli.views.ages import age
from tfoperator.durations import human_duration
from tfoperator.sdk.queues import JobQueue
from tfoperator.sdk.states import job_state

HEADER = ("NAME", "STATE", "READY", "RESTARTS", "PROGRESS", "ETA", "AGE")
WIDE_HEADER = (*HEADER, "DURATION", "REPLICAS", "MESSAGE")
STATE_COLUMN = HEADER.index("STATE")
QUEUE_HEADER = "QUEUE"
"""Of a column that is there if a job is in a queue."""


def job_row(job: TFJob, now: datetime, *, wide: bool = False, state: str = "") -> tuple[str, ...]:
    """The cells of one job under HEADER or WIDE_HEADER."""
    shown = state or job_state(job)
    restarts, since = str(job.status.restarts), age(job.metadata.creation_timestamp, now)
    progress = job.status.progress
    done, left = (progress.completion, progress.eta) if progress is not None else ("", "")
    row = (job.metadata.name, shown, ready_text(job), restarts, done or "-", left or "-", since)
    return (*row, took(job, now), replicas_text(job), state_message(job)) if wide else row


def queue_cell(queue: JobQueue | None) -> str:
    """`research: Waiting`; `-` for a job without a queue."""
    return "-" if queue is None else f"{queue.title}: {queue.state}"


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
    return human_duration(((job.status.completion_time or now) - job.status.start_time).total_seconds())


def _wanted(job: TFJob) -> dict[str, int]:
    specs = job.spec.tf_replica_specs
    return {kind: spec.desired for kind, spec in specs.items() if spec is not None}
