"""Converts the history of a replica into spans: periods in which the replica was pending, running and so on. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tfoperator.kube.views.pod_status import ContainerState, ContainerStatus
from tfoperator.sdk.states import container_status, waiting_reason, was_stopped
from tfoperator.ui.jobs.objects import SeenPod


class TimelineRun(msgspec.Struct, frozen=True):
    """A run of a replica's container.

    If `finished` is None, the run has not ended. `stopped` is True if the operator stopped the container because the
    job had ended.
    """

    started: datetime
    finished: datetime | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    stopped: bool = False


class PodRecord(msgspec.Struct, frozen=True):
    """The observed runs of a pod's container, in the order of time.

    `restarts` is the restart count in the pod's status. `waits` is the reason why the pod waits. `gone` is the time at
    which the pod was deleted.

    The start and the end identify a run. The restart count does not identify the run: while a container waits for its
    restart, some kubelets have already increased the restart count, and other kubelets have not. The start alone does
    not identify a run either, because times are in whole seconds, so two runs may have the same start.
    """

    name: str
    uid: str
    replica: str
    created: datetime
    runs: tuple[TimelineRun, ...] = ()
    restarts: int = 0
    waits: str = ""
    gone: datetime | None = None


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """A period in the history of a replica. If `end` is None, the period has not ended.

    A period before the first run has the state `pending`, and a period between two runs has the state `waiting`. A run
    has the state `running` if it has not ended. Otherwise its state is its result: `succeeded`, `failed` or `stopped`.
    """

    state: str
    start: datetime
    end: datetime | None
    pod: str
    why: str = ""
    exit_code: int | None = None


def observe(pod: SeenPod, replica: str, before: PodRecord | None, now: datetime) -> PodRecord:
    """Return the record of a pod, updated with the pod's current status.

    The status contains only the current run and the run before it. Older runs come from `before`, the record so far.
    """
    runs = before.runs if before is not None else ()
    status = container_status(pod)
    if status is not None:
        present = _run(status.state)
        if present is not None and present.exit_code and was_stopped(pod):
            present = msgspec.structs.replace(present, stopped=True)
        for run in (_run(status.last_state), present):
            runs = runs if run is None else _with(runs, run)
    meta = pod.metadata
    return PodRecord(
        name=meta.name,
        uid=meta.uid,
        replica=replica,
        created=meta.creation_timestamp or now,
        runs=runs,
        restarts=status.restart_count if status is not None else 0,
        waits="" if was_stopped(pod) else _waits(pod, status, now),
    )


def spans(records: Sequence[PodRecord]) -> Iterator[Span]:
    """Yield the spans of a replica, the oldest span first. `records` are the records of all pods of the replica."""
    ordered = sorted(records, key=lambda record: record.created)
    for record, successor in zip(ordered, [*ordered[1:], None], strict=False):
        for span in _spans(record):
            if successor is None:
                yield span
            elif span.start < successor.created:
                # A terminating pod may still run when its successor already exists. Show only the successor from the
                # creation of the successor on.
                end = min(span.end or successor.created, successor.created)
                yield msgspec.structs.replace(span, end=end)


def by_replica(records: Mapping[str, PodRecord]) -> dict[str, list[PodRecord]]:
    """Group the records by the name of the replica. Return a list of records for each name."""
    grouped: dict[str, list[PodRecord]] = {}
    for record in records.values():
        grouped.setdefault(record.replica, []).append(record)
    return grouped


def _spans(record: PodRecord) -> Iterator[Span]:
    since, why = record.created, record.waits if not record.runs else ""
    if record.runs and record.restarts >= len(record.runs):
        restarted = f"the kubelet restarted the container {record.restarts} times"
        why = f"the container's earlier starts are not recorded ({restarted})"
    state = "pending"
    for run in record.runs:
        if run.started > since:
            yield Span(state, since, run.started, record.name, why)
        end = run.finished or record.gone
        again = "" if run is record.runs[-1] else "; restarted in place"
        yield Span(_outcome(run), run.started, end, record.name, _why(run) + again, run.exit_code)
        if end is None:
            return
        since, state, why = end, "waiting", record.waits
    if state == "pending" or (record.waits and record.gone is None):
        yield Span(state, since, record.gone, record.name, why)


def _with(runs: tuple[TimelineRun, ...], run: TimelineRun) -> tuple[TimelineRun, ...]:
    """Return the runs with `run` added, in the order of their starts.

    If `runs` already contains an older state of the same run, `run` replaces the older state.
    """
    same = [
        at
        for at, earlier in enumerate(runs)
        if earlier.started == run.started and earlier.finished in (None, run.finished)
    ]
    others = [earlier for at, earlier in enumerate(runs) if at not in same[-1:]]
    return tuple(sorted([*others, run], key=lambda of_replica: of_replica.started))


def _run(state: ContainerState | None) -> TimelineRun | None:
    if state is None:
        return None
    if state.running is not None and state.running.started_at is not None:
        return TimelineRun(state.running.started_at)
    ended = state.terminated
    if ended is None or ended.finished_at is None:
        return None
    return TimelineRun(
        ended.started_at or ended.finished_at, ended.finished_at, ended.exit_code, ended.reason, ended.message
    )


def _outcome(run: TimelineRun) -> str:
    if run.exit_code is None:
        return "running"
    if run.stopped:
        return "stopped"
    return "succeeded" if run.exit_code == 0 else "failed"


def _why(run: TimelineRun) -> str:
    if run.exit_code is None:
        return ""
    text = f"exit code {run.exit_code}"
    if run.reason and run.reason not in ("Completed", "Error"):
        text += f", {run.reason}"
    return f"{text}: {run.message}" if run.message else text


def _waits(pod: SeenPod, status: ContainerStatus | None, now: datetime) -> str:
    waiting = status.state.waiting if status is not None and status.state is not None else None
    return waiting_reason(pod, now=now) or (waiting.reason if waiting is not None else "")
