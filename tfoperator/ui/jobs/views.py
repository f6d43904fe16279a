"""Converts jobs, pods and events into dictionaries that the page gets as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from tfoperator.api.kueue.queues import is_multikueue, queue_name
from tfoperator.api.replicas.names import replica_name, tensorboard_name
from tfoperator.api.v1.condition_types import Concern, ConditionType
from tfoperator.api.v1.job_conditions import final_condition, has_condition
from tfoperator.api.v1.state import JobState
from tfoperator.api.v1.status import all_conditions
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.event import Event
from tfoperator.sdk.queues import JobQueue
from tfoperator.sdk.states import (
    container_status,
    pod_order,
    ready_text,
    reasons_without_pods,
    replica_state,
    restart_count,
    waiting_reason,
    wanted_replicas,
)
from tfoperator.ui.jobs.objects import SeenPod
from tfoperator.ui.jobs.phases import SeenPhases, job_time
from tfoperator.ui.jobs.resizes import resize_marks
from tfoperator.ui.jobs.timeline import PodRecord, by_replica, spans
from tfoperator.ui.streaming import seconds, short

MAX_EVENTS = 200
"""The page gets at most this many events of a job: the latest events."""
_REPORTED_CONDITIONS = (
    ConditionType.RESTARTING,
    *(condition for condition in ConditionType if condition.traits.concern is Concern.ALARM),
)
"""If a job has one of these conditions with the status True, the page offers a report on the job."""

_UNREPORTED_ENDS = ("Interrupted",)
"""The states of jobs that the user has ended with Ctrl-C. A condition of such a job is no reason to offer a report."""


def job_row(job: TFJob, queue: JobQueue | None = None) -> dict[str, Any]:
    """Return the data of a job that the list of jobs shows. `queue` is the job's state in its Kueue queue, if known."""
    meta, status, state = job.metadata, job.status, job.state
    return {
        "key": meta.key,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "state": state.word,
        "message": short(_message(job, state, queue)),
        "ready": ready_text(job),
        "replicas": wanted_replicas(job),
        "restarts": restart_count(job),
        "disruptions": status.disruptions,
        "created": seconds(meta.creation_timestamp),
        "started": seconds(status.start_time),
        "completed": seconds(status.completion_time),
        "progress": status.progress,
    }


def job_detail(
    job: TFJob, queue: JobQueue | None = None, phases: SeenPhases | None = None, *, local: bool = False
) -> dict[str, Any]:
    """Return the data of a job that the job's own page shows: the data of `job_row`, and more details.

    With `local`, the page may show the job's TensorBoard in a frame. `phases` are the phases that the page's server has
    recorded (`phases.follow`).
    """
    scheduling, elastic = job.spec.policy.scheduling_policy, job.status.elastic
    return job_row(job, queue) | {
        "generation": job.metadata.generation,
        "queue": (scheduling.queue if scheduling is not None else None) or queue_name(job.metadata.labels),
        "queueState": "" if queue is None else short(str(queue)),
        "suspended": job.spec.suspended,
        "elastic": "" if elastic is None else short(elastic.text()),
        "managedBy": job.spec.policy.managed_by or "",
        "labels": job.metadata.labels,
        "broken": job.decode_error,
        "conditions": [
            {
                "type": c.type,
                "status": c.status,
                "reason": c.reason,
                "message": short(c.message),
                "since": seconds(c.last_transition_time),
            }
            for c in all_conditions(job.status)
        ],
        "tensorBoard": _tensorboard(job, local),
        "dataService": "" if job.status.data_service is None else short(job.status.data_service.in_short),
        "time": _time(job, phases),
        "hasReport": job.status.restarts > 0
        or (any(has_condition(job, kind) for kind in _REPORTED_CONDITIONS) and job.state.word not in _UNREPORTED_ENDS)
        or bool(reasons_without_pods(job)),
    }


def replica_rows(
    job: TFJob, pods: Sequence[SeenPod], records: Mapping[str, PodRecord], events: Sequence[Event], now: datetime
) -> list[dict[str, Any]]:
    """Return the data of all replicas of a job, in three groups.

    The groups are: the replicas with a pod; the replicas whose pods were deleted; the replicas that had no pod so far.
    `records` are the records of the job's pods in the history, by UID.
    """
    lives = by_replica(records)
    rows = []
    named = {}
    for pod in sorted(pods, key=pod_order):
        name = replica_name(pod)
        # If a replica has a terminating pod and its successor, show the successor.
        if name not in named or pod.metadata.deletion_timestamp is None:
            named[name] = pod
    for name, pod in named.items():
        why = waiting_reason(pod, job, now, events)
        rows.append(_replica(name, pod, why) | {"spans": _spans(lives.pop(name, []))})
    reasons = reasons_without_pods(job)
    for name, life in sorted(lives.items()):
        gone = {"name": name, "state": "Gone", "pod": life[-1].name, "spans": _spans(life)}
        rows.append(gone | {"why": short(reasons.get(name, ""))})
    present = {row["name"] for row in rows}
    for kind, spec in job.spec.tf_replica_specs.items():
        wanted = spec.desired if spec is not None else 0
        missing = [f"{kind.lower()}-{i}" for i in range(min(wanted, 1000)) if f"{kind.lower()}-{i}" not in present]
        state = "Elsewhere" if is_multikueue(job) else "No pod"
        rows += [
            {"name": name, "state": state, "pod": "", "spans": [], "why": short(reasons.get(name, ""))}
            for name in missing
        ]
    return rows


def event_rows(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return the data of the latest events, the latest event first. There are at most MAX_EVENTS events."""
    latest = sorted(events, key=lambda event: event.last_seen)[-MAX_EVENTS:]
    return [
        {
            "type": event.type,
            "reason": event.reason,
            "message": short(event.message),
            "subject": event.subject,
            "times": event.times,
            "seen": seconds(event.last_seen),
        }
        for event in reversed(latest)
    ]


def _replica(name: str, pod: SeenPod, why: str) -> dict[str, Any]:
    status = container_status(pod)
    main = next((c for c in pod.spec.containers if status is not None and c.name == status.name), None)
    main = main or next(iter(pod.spec.containers), None)
    resources = main.resources if main is not None else None
    statuses = pod.status.container_statuses
    ended = status.state.terminated if status is not None and status.state is not None else None
    return {
        "name": name,
        "pod": pod.metadata.name,
        "uid": pod.metadata.uid,
        "state": replica_state(pod),
        "ready": bool(statuses) and all(container.ready for container in statuses),
        "restarts": status.restart_count if status is not None else 0,
        "exitCode": ended.exit_code if ended is not None else None,
        "why": short(why or pod.status.message or (ended.message if ended is not None else "")),
        "node": pod.spec.node_name,
        "image": main.image if main is not None else "",
        "limits": (resources.limits if resources is not None else None) or {},
        "requests": (resources.requests if resources is not None else None) or {},
        "created": seconds(pod.metadata.creation_timestamp),
    }


def _spans(records: Sequence[PodRecord]) -> list[dict[str, Any]]:
    return [
        {
            "state": span.state,
            "start": seconds(span.start),
            "end": seconds(span.end),
            "pod": span.pod,
            "why": short(span.why),
            "exitCode": span.exit_code,
        }
        for span in spans(records)
    ]


def _message(job: TFJob, state: JobState, queue: JobQueue | None) -> str:
    """Return the text that the page shows next to the job's state: how the job ended, why it waits, or where it runs.

    A job can wait in a queue of Kueue. With MultiKueue, a job runs in another cluster.
    """
    if final_condition(job) is not None:
        return state.message
    if queue is not None and queue.waits:
        return f"Queue {queue}"
    if state.message:
        return state.message + (f" (on cluster {queue.cluster})" if queue is not None and queue.cluster else "")
    if is_multikueue(job):
        where = (
            f"cluster {queue.cluster}" if queue is not None and queue.cluster else "a cluster that MultiKueue selects"
        )
        return f"MultiKueue manages this job, and runs the job on {where}."
    return job.decode_error or "The operator has not read this job yet."


def _time(job: TFJob, phases: SeenPhases | None) -> dict[str, Any] | None:
    """Return how the job used its time, and the changes of its number of workers; None if the status has no usage."""
    usage, elastic = job.status.usage, job.status.elastic
    if usage is None:
        return None
    marks = resize_marks(elastic)
    if elastic is None or not marks:
        return job_time(usage, phases)
    return job_time(usage, phases) | {"resizes": marks, "changes": max(elastic.changes, len(marks))}


def _tensorboard(job: TFJob, local: bool) -> dict[str, Any] | None:
    """Return the address of the job's TensorBoard, or None if the job's status has no address or a malformed URL.

    In the result, `url` is "" if the address is not an http or https URL. `framed` is True if the page may show
    TensorBoard in a frame, because TensorBoard runs on this machine.
    """
    status = job.status.tensor_board
    if status is None or not status.url:
        return None
    try:
        parts = urlsplit(status.url)
        host = parts.hostname or ""
    except ValueError:
        return None
    usable = parts.scheme in ("http", "https") and host != ""
    return {
        "url": status.url if usable else "",
        "ready": status.ready,
        "framed": local and usable and parts.scheme == "http" and host in ("127.0.0.1", "localhost"),
        "service": tensorboard_name(job.metadata.name),
    }
