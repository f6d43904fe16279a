"""A TFJob and its events in the columns and lines that `get`, `describe` and `events` print. No I/O."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tfoperator.api.v1.types import TFJob
from tfoperator.base.durations import human_duration
from tfoperator.sdk import JobEvent
from tfoperator.sdk.queues import JobQueue
from tfoperator.sdk.states import ready_text, restart_count, wanted_replicas

HEADER = ("NAME", "STATE", "READY", "RESTARTS", "PROGRESS", "ETA", "AGE")
WIDE_HEADER = (*HEADER, "DISRUPTIONS", "GOODPUT", "DURATION", "REPLICAS", "MESSAGE")
STATE_COLUMN = HEADER.index("STATE")
QUEUE_HEADER = "QUEUE"
"""The header of the column for queues, which appears only if a job is in a queue."""


def job_row(job: TFJob, now: datetime, *, wide: bool = False, state: str = "") -> tuple[str, ...]:
    """Return the cells of a job under HEADER or WIDE_HEADER. `state`, if it is not "", replaces the job's state."""
    shown, restarts = state or job.state.word, restart_count(job)
    counted, since = "-" if restarts is None else str(restarts), age(job.metadata.creation_timestamp, now)
    progress = job.status.progress
    done, left = (progress.completion, progress.eta) if progress is not None else ("", "")
    row = (job.metadata.name, shown, ready_text(job), counted, done or "-", left or "-", since)
    if not wide:
        return row
    percent = None if job.status.usage is None else job.status.usage.goodput_at(now)
    goodput = "-" if percent is None else f"{percent}%"
    disruptions = "-" if restarts is None else str(job.status.disruptions)
    return (*row, disruptions, goodput, took(job, now), replicas_text(job), job.state.message)


def queue_cell(queue: JobQueue | None) -> str:
    """Return the queue, and the state of the job in the queue, for example `research: Waiting`.

    If MultiKueue runs the job on another cluster, add its name: `far: Admitted on cluster-2`. For a job without a
    queue, return `-`.
    """
    if queue is None:
        return "-"
    return f"{queue.title}: {queue.state}" + (f" on {queue.cluster}" if queue.cluster else "")


def replicas_text(job: TFJob) -> str:
    """Return the number of replicas that the job wants, by type, such as `1 PS, 2 Worker`; `-` if it wants none."""
    return ", ".join(f"{count} {kind}" for kind, count in wanted_replicas(job).items()) or "-"


def took(job: TFJob, now: datetime) -> str:
    """Return how long the job has run, for example `3m20s`; `-` before its start.

    For a job that has not ended, return the time from its start to `now`.
    """
    if job.status.start_time is None:
        return "-"
    return human_duration(((job.status.completion_time or now) - job.status.start_time).total_seconds())


def age(since: datetime | None, now: datetime) -> str:
    """Return the time from `since` to `now`, for example `5m`; `-` if `since` is None."""
    return "-" if since is None else human_duration((now - since).total_seconds())


EVENT_HEADER = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")


def event_row(event: JobEvent, now: datetime) -> tuple[str, ...]:
    """Return the cells of an event's row under EVENT_HEADER."""
    last_seen = age(event.last_seen, now) + (f" (x{event.times})" if event.times > 1 else "")
    return (last_seen, event.type, event.reason, event.subject, event.message)


def event_summary(event: JobEvent) -> dict[str, Any]:
    """Return an event as data for a program: type, reason, message, object, count, time and source."""
    return {
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "kind": event.involved_object.kind,
        "name": event.involved_object.name,
        "count": event.times,
        "lastSeen": event.last_seen.isoformat(),
        "source": event.reporter,
    }
