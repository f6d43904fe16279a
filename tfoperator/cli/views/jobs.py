"""A TFJob in the columns and lines that `get` and `describe` print. Pure."""

from __future__ import annotations

from datetime import datetime

from tfoperator.api.job_conditions import condition_of
from tfoperator.api.v1.types import TFJob
from tfoperator.base.durations import human_duration
from tfoperator.cli.views.ages import age
from tfoperator.sdk.queues import JobQueue
from tfoperator.sdk.states import job_state, ready_text, restart_count, wanted_replicas

HEADER = ("NAME", "STATE", "READY", "RESTARTS", "PROGRESS", "ETA", "AGE")
WIDE_HEADER = (*HEADER, "DURATION", "REPLICAS", "MESSAGE")
STATE_COLUMN = HEADER.index("STATE")
QUEUE_HEADER = "QUEUE"
"""Of a column that is there if a job is in a queue."""


def job_row(job: TFJob, now: datetime, *, wide: bool = False, state: str = "") -> tuple[str, ...]:
    """The cells of one job under HEADER or WIDE_HEADER."""
    shown, restarts = state or job_state(job), restart_count(job)
    counted, since = "-" if restarts is None else str(restarts), age(job.metadata.creation_timestamp, now)
    progress = job.status.progress
    done, left = (progress.completion, progress.eta) if progress is not None else ("", "")
    row = (job.metadata.name, shown, ready_text(job), counted, done or "-", left or "-", since)
    return (*row, took(job, now), replicas_text(job), state_message(job)) if wide else row


def queue_cell(queue: JobQueue | None) -> str:
    """`research: Waiting`, `far: Admitted on worker-1`; `-` for a job without a queue."""
    if queue is None:
        return "-"
    return f"{queue.title}: {queue.state}" + (f" on {queue.cluster}" if queue.cluster else "")


def replicas_text(job: TFJob) -> str:
    """`1 PS, 2 Worker`."""
    return ", ".join(f"{count} {kind}" for kind, count in wanted_replicas(job).items()) or "-"


def state_message(job: TFJob) -> str:
    """What the condition that is the job's state says."""
    condition = condition_of(job, job_state(job))
    return condition.message if condition is not None else ""


def took(job: TFJob, now: datetime) -> str:
    """How long the job has run, or ran."""
    if job.status.start_time is None:
        return "-"
    return human_duration(((job.status.completion_time or now) - job.status.start_time).total_seconds())
