"""The text of `tfoperator describe`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tfoperator.api.kueue.queues import is_multikueue, not_carried
from tfoperator.api.replicas.left_running import left_running, left_running_text
from tfoperator.api.replicas.names import (
    all_restarts_before,
    parse_replica_type,
    replica_name,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import has_condition
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.state import restarts_text
from tfoperator.api.v1.status import ReplicaStatus, TFJobStatus, all_conditions, parse_indexes
from tfoperator.api.v1.types import ReplicaSpec, TFJob
from tfoperator.api.v1.usage_text import resources_text, usage_text
from tfoperator.api.validation.warnings import validate_grace
from tfoperator.cli.terminal.output import say, table
from tfoperator.cli.views.jobs import EVENT_HEADER, age, event_row, replicas_text, took
from tfoperator.cli.views.progress import behind_text, progress_text, slow_text
from tfoperator.cli.views.replica_rows import replica_row, usage_cells, usage_header
from tfoperator.kube.views.objects import Pod
from tfoperator.sdk import JobEvent, JobQueue, PodUsage
from tfoperator.sdk.states import reasons_without_pods, waiting_reason

_REPLICA_HEADER = ("REPLICA", "STATE", "READY", "RESTARTS", "AGE", "NODE", "REASON")
_AGE = _REPLICA_HEADER.index("AGE")  # the columns of the usage of replicas come before this column
_CONDITION_HEADER = ("TYPE", "STATUS", "SINCE", "REASON", "MESSAGE")
_EVENTS = 25  # the latest are shown
_MISSING = 20  # replicas without a pod that are shown one by one


def print_description(
    job: TFJob,
    pods: Sequence[Pod],
    events: Sequence[JobEvent],
    now: datetime,
    usage: Mapping[str, PodUsage],
    queue: JobQueue | None = None,
) -> None:
    """Print the description of a job, as `tfoperator describe` shows it.

    `usage` has the measured usage of each pod, by the pod's name. `queue` is the job's queue, or None if the job is in
    no queue.
    """
    for title, text in _facts(job, pods, now, queue):
        say(f"{title + ':':<14}{text}")
    say("\nReplicas:")
    used = usage_header(usage.values())
    cells = {replica_name(pod): usage_cells(usage.get(pod.metadata.name), used) for pod in pods}
    if queue is not None and queue.multikueue:
        say(f"  {_elsewhere(job, queue)}")
    rows = [
        (*row[:_AGE], *cells.get(row[0], usage_cells(None, used)), *row[_AGE:])
        for row in _replicas(job, pods, events, now)
    ]
    if rows:
        table((*_REPLICA_HEADER[:_AGE], *used, *_REPLICA_HEADER[_AGE:]), rows, state_column=1, indent="  ")
    say("\nConditions:")
    conditions = [
        (c.type, c.status, age(c.last_transition_time, now), c.reason, c.message) for c in all_conditions(job.status)
    ]
    if conditions:
        table(_CONDITION_HEADER, conditions, indent="  ")
    else:
        say(f"  {_no_conditions(queue)}")
    shown = events[-_EVENTS:]
    say("\nEvents:" + (f" (the last {len(shown)} of {len(events)})" if len(shown) < len(events) else ""))
    if shown:
        table(EVENT_HEADER, [event_row(event, now) for event in shown], indent="  ")
    else:
        say("  none")


def _elsewhere(job: TFJob, queue: JobQueue) -> str:
    """Return a line about the replicas of a job that MultiKueue runs on another cluster.

    The line contains the name of the cluster, and the numbers of replicas by type.
    """
    counts = [
        f"{kind}: {counts.active} active, {counts.succeeded} succeeded, {counts.failed} failed"
        for kind, counts in job.status.replica_statuses.items()
    ]
    where = (
        f"on cluster {queue.cluster}" if queue.cluster else "on another cluster; MultiKueue may not have chosen it yet"
    )
    return f"{where}, from MultiKueue: {'; '.join(counts) or 'nothing yet'}"


def _no_conditions(queue: JobQueue | None) -> str:
    if queue is None or not queue.multikueue:
        return "none: perhaps the operator is not running"
    return "none: MultiKueue manages the job, and copies its state from the cluster on which the job runs"


def _facts(job: TFJob, pods: Sequence[Pod], now: datetime, queue: JobQueue | None) -> Iterator[tuple[str, str]]:
    meta, status = job.metadata, job.status
    yield "Name", meta.name
    yield "Namespace", meta.namespace
    if meta.labels:
        yield "Labels", ", ".join(f"{key}={value}" for key, value in sorted(meta.labels.items()))
    state = job.state
    yield "State", state.word + (f" - {state.message}" if state.message else "")
    if queue is not None:
        yield "Queue", str(queue)
    yield "Created", _moment(meta.creation_timestamp, now)
    if status.start_time is not None:
        yield "Started", _moment(status.start_time, now)
    if status.completion_time is not None:
        yield "Ended", f"{_moment(status.completion_time, now)}, took {took(job, now)}"
    if has_condition(job, ConditionType.SUCCEEDED) and (left := left_running(pods)):
        yield "Still runs", left_running_text(left)
    yield from _numbers(job)
    if policy := _policy(job):
        yield "Policy", policy
    if is_multikueue(job) and (lost := not_carried(job)):
        yield "Left behind", f"{', '.join(lost)}: MultiKueue does not copy these fields to the other cluster"
    yield from _beside(status)
    if status.progress is not None:
        yield from _progress(status.progress, now)
        for problem in validate_grace(job):
            yield "Grace period", f"{problem.message} (at {problem.field})"
    yield from _restarted_and_used(status, now)
    if job.decode_error:
        yield "Broken", job.decode_error.replace("\n", "; ")


def _beside(status: TFJobStatus) -> Iterator[tuple[str, str]]:
    """Yield the lines about the TensorBoard and the data service of a job."""
    if status.tensor_board is not None:
        yield "TensorBoard", status.tensor_board.url + ("" if status.tensor_board.ready else " (not ready)")
    if status.data_service is not None:
        yield "Data service", status.data_service.in_short


def _numbers(job: TFJob) -> Iterator[tuple[str, str]]:
    yield "Asked for", replicas_text(job)
    elastic = job.status.elastic
    if elastic is not None and (workers := elastic.text()):
        yield "Workers", workers
    if elastic is not None and (resizes := elastic.last_resizes()):
        yield "Resized", "; ".join(resize.text() for resize in resizes)


def _progress(progress: TrainingProgress, now: datetime) -> Iterator[tuple[str, str]]:
    reported = age(progress.last_updated_time, now)
    yield "Progress", f"{progress_text(progress, now)} (reported {reported} ago)"
    if late := behind_text(progress, now):
        yield "Behind", late
    if slow := slow_text(progress):
        yield "Slow", slow


def _restarted_and_used(status: TFJobStatus, now: datetime) -> Iterator[tuple[str, str]]:
    if status.restarts:
        yield "Restarted", restarts_text(status)
    usage = status.usage
    if usage is None:
        return
    if spent := usage_text(usage, now):
        yield "Time", spent
    if held := resources_text(usage, now):
        yield "Resources", held


def _moment(moment: datetime | None, now: datetime) -> str:
    return "-" if moment is None else f"{moment.isoformat(sep=' ', timespec='seconds')} ({age(moment, now)} ago)"


def _policy(job: TFJob) -> str:
    policy = {} if job.spec.run_policy is None else msgspec.to_builtins(job.spec.run_policy)
    policy.pop("schedulingPolicy", None)
    spec = job.spec
    for name, value in (
        ("successPolicy", spec.success_policy or None),
        ("minSucceededWorkers", spec.min_succeeded_workers),
        ("maxFailedWorkers", spec.max_failed_workers),
        ("dynamic", spec.enable_dynamic_worker or None),
    ):
        if value is not None:
            policy[name] = value
    return ", ".join(f"{name}={str(value).lower() if value is True else value}" for name, value in policy.items())


def _replicas(job: TFJob, pods: Sequence[Pod], events: Sequence[JobEvent], now: datetime) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the replicas: first the replicas with a pod, then the replicas without a pod."""
    names: set[str] = set()
    reasons = reasons_without_pods(job)
    for pod in pods:
        row = replica_row(pod)
        names.add(row.name)
        restarts = row.restarts + all_restarts_before(pod.metadata.annotations)
        # The operator stops a pod by a deadline, so the kubelet's reason is DeadlineExceeded. The operator's own reason
        # is in `row.detail`.
        is_stopped = row.detail and row.state in ("Stopped", "Stopping")
        reason = row.detail if is_stopped else waiting_reason(pod, job, now, events) or row.detail
        ready = "yes" if row.ready else "no"
        node = pod.spec.node_name or "-"
        yield row.name, row.state, ready, str(restarts), age(pod.metadata.creation_timestamp, now), node, reason
    for kind, spec in job.spec.tf_replica_specs.items():
        if spec is not None and not is_multikueue(job):
            yield from _without_pods(kind, spec, job.status.replica_statuses.get(kind), names, reasons)


def _without_pods(
    kind: str, spec: ReplicaSpec, status: ReplicaStatus | None, names: set[str], reasons: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    replica_type = parse_replica_type(kind)
    completed = parse_indexes(status.completed_indexes) if status is not None else frozenset()
    failed = parse_indexes(status.failed_indexes) if status is not None else frozenset()
    counts = status.restart_counts if status is not None else {}
    missing = [index for index in range(spec.desired) if f"{(replica_type or kind).lower()}-{index}" not in names]
    for index in missing[:_MISSING]:
        state = "Completed" if index in completed else "Failed" if index in failed else "No pod"
        name = f"{kind.lower()}-{index}"
        reason = reasons.get(name, "") if state == "No pod" else ""
        yield name, state, "no", str(counts.get(str(index), 0)), "-", "-", reason
    if len(missing) > _MISSING:
        yield f"{kind.lower()}: {len(missing) - _MISSING} more", "No pod", "no", "-", "-", "-", ""
