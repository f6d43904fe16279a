"""Reads the data about a job from a cluster and from the log archive, and converts them to the facts for a report."""

from __future__ import annotations

import logging
import math
import signal
from collections.abc import Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Protocol

import msgspec

from tfoperator.api.kueue.queues import is_multikueue
from tfoperator.api.replicas.names import (
    ANNOTATION_STOPPED,
    DEFAULT_CONTAINER_NAME,
    STOPPED_WITH_RUN,
    replica_name,
)
from tfoperator.api.replicas.replica_pods import replica_phase, stopped_with_replica
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.status import parse_indexes
from tfoperator.api.v1.types import TFJob
from tfoperator.base.controlchars import shown_lines
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStateTerminated, ContainerStatus
from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod
from tfoperator.logs.archive.reader import read_archived
from tfoperator.logs.archive.runs import runs_of_container
from tfoperator.report.facts import (
    NO_POD,
    POD_GONE,
    TAIL_BYTES,
    TAIL_LINES,
    FinalState,
    JobFacts,
    ReplicaFacts,
    RunFacts,
    ended_runs,
)
from tfoperator.report.job import facts_of_job, facts_of_replica, is_held, taken_replicas
from tfoperator.report.log_lines import plain_lines
from tfoperator.sdk.events import JobEvent
from tfoperator.sdk.logs.pod_logs import end_of
from tfoperator.sdk.states import (
    container_status,
    pod_order,
    reasons_without_pods,
    waiting_reason,
    wanted_replicas,
)

logger = logging.getLogger(__name__)

_PARALLEL_READS = 8
_LAST_LINES = 20  # lines of a replica that has not failed: its report shows only its last activity
_ARCHIVED_RUNS = 20  # of each replica: the last runs
_SIGNALLED = (128 + signal.SIGTERM, 128 + signal.SIGKILL)
_STOPPED_REASON = "DeadlineExceeded"
"""`status.reason` of a pod that was ended by its activeDeadlineSeconds. The operator also stops pods by this field."""


class LogPlace(Protocol):
    """A function that returns where a user finds the log of a pod's container, or of the container's previous run."""

    def __call__(self, pod: Pod, container: str, *, previous: bool) -> str:
        """Return the path of a file, or a command."""
        ...


def kubectl_logs(pod: Pod, container: str, *, previous: bool) -> str:
    """Return the command that shows the log of a pod in the cluster."""
    return (
        f"kubectl logs {pod.metadata.name} -n {pod.metadata.namespace}"
        + (f" -c {container}" if container != DEFAULT_CONTAINER_NAME else "")
        + (" --previous" if previous else "")
    )


def job_facts(
    job: TFJob,
    pods: Sequence[Pod],
    archived: Iterable[ArchivedPod],
    client: Client | None,
    *,
    now: datetime | None = None,
    events: Sequence[JobEvent] = (),
    place: LogPlace = kubectl_logs,
) -> JobFacts:
    """Return the facts about the job, with the current and the previous run of each pod, and the runs in the archive.

    For each pod, one or two logs are read. If `client` is None, no log is read. A log that is not available is empty,
    for example because the node is gone or this user may not read logs. `events` are the events of the job and its
    pods. These events show why a volume is not mounted, and why replicas were disrupted. If `now` is None, replicas
    without a pod are left out, unless the archive has their runs. `place` returns where the logs of the current pods
    are.
    """
    present = {pod.metadata.uid for pod in pods}
    old: dict[str, list[ArchivedPod]] = {}
    kept: dict[str, ArchivedPod] = {}  # of present pods, by uid
    stacks: dict[str, str] = {}  # by replica: the newest
    for record in archived:
        if folder := _stacks_in(record):
            stacks[replica_name(record.as_pod())] = folder
        if record.pod_uid in present:
            kept[record.pod_uid] = record
        else:
            old.setdefault(replica_name(record.as_pod()), []).append(record)
    with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="read-log") as pool:
        replicas = list(pool.map(partial(_replica, client, job, old, kept, now, events, place), pods))
    present_names = {replica.name for replica in replicas}
    gone = sorted(
        (records[-1] for name, records in old.items() if name not in present_names), key=lambda r: pod_order(r.as_pod())
    )
    replicas += [_archived_replica(client, job, old[replica_name(record.as_pod())]) for record in gone]
    replicas = [msgspec.structs.replace(replica, stacks=stacks.get(replica.name, "")) for replica in replicas]
    replicas += _without_pods(job, {replica.name for replica in replicas}) if now is not None else ()
    return msgspec.structs.replace(facts_of_job(job), replicas=tuple(replicas), taken=tuple(taken_replicas(events)))


def _without_pods(job: TFJob, present_names: Set[str]) -> Iterator[ReplicaFacts]:
    """Yield the facts about replicas that have no pod and wait for a pod, if the job should have pods now.

    `present_names` are the names of replicas that have a pod, or runs in the archive.
    """
    if is_multikueue(job) or final_condition(job) is not None or is_held(job):
        return
    reasons = reasons_without_pods(job)
    for kind, wanted in wanted_replicas(job).items():
        status = job.status.replica_statuses.get(kind)
        ended = frozenset[int]() if status is None else parse_indexes(status.completed_indexes)
        ended |= frozenset[int]() if status is None else parse_indexes(status.failed_indexes)
        for index in range(wanted):
            name = f"{kind.lower()}-{index}"
            if index not in ended and name not in present_names:
                yield ReplicaFacts(name=name, detail=reasons.get(name, NO_POD))


def _replica(
    client: Client | None,
    job: TFJob,
    old: dict[str, list[ArchivedPod]],
    kept: dict[str, ArchivedPod],
    now: datetime | None,
    events: Sequence[JobEvent],
    place: LogPlace,
    pod: Pod,
) -> ReplicaFacts:
    before, decisive = _archived_runs(client, old.get(replica_name(pod), ())), _decisive(pod)
    runs = [*before]
    if decisive is not None and pod.metadata.uid in kept:
        first = min((run.number for run in runs_of_container(pod, decisive, init=False)), default=0)
        runs += _archived_runs(client, [kept[pod.metadata.uid]], first)
    runs += _runs(client, place, pod, decisive)
    state = _state(pod)
    waits = state in (FinalState.WAITING, FinalState.RUNNING)
    detail = waiting_reason(pod, job, now, events) if waits else ""
    return facts_of_replica(job, pod, state=state, runs=runs, ended_runs=ended_runs(runs), detail=detail)


def _archived_replica(client: Client | None, job: TFJob, records: Sequence[ArchivedPod]) -> ReplicaFacts:
    pod, record = records[-1].as_pod(), records[-1]
    runs = list(_archived_runs(client, records))
    ended = {"Succeeded": FinalState.SUCCEEDED, "Failed": FinalState.FAILED}.get(record.phase, FinalState.STOPPED)
    state = FinalState.STOPPED if ended is FinalState.FAILED and runs and runs[-1].stopped else ended
    return facts_of_replica(job, pod, state=state, runs=runs, ended_runs=ended_runs(runs), detail=POD_GONE)


def _decisive(pod: Pod) -> ContainerStatus | None:
    """Return the status of the container whose end decides the replica's state: normally `tensorflow`.

    If `tensorflow` has not failed, but the pod failed or never ran it, return another container that has failed.
    """
    own = container_status(pod)
    if own is not None and (_failed(own) or _waits_again(own) or replica_phase(pod) in ("Running", "Succeeded")):
        return own
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next((status for status in statuses if _failed(status)), own)


def _terminated(status: ContainerStatus) -> ContainerStateTerminated | None:
    return status.state.terminated if status.state is not None else None


def _failed(status: ContainerStatus) -> bool:
    ended = _terminated(status)
    return ended is not None and ended.exit_code != 0


def _waits_again(status: ContainerStatus) -> bool:
    """Return whether the container has run, and now waits for its next run or is in its next run.

    After a pod was stopped, its containers have ended for good, so the result is False.
    """
    ran = status.last_state is not None and status.last_state.terminated is not None
    return ran and _terminated(status) is None


def _state(pod: Pod) -> FinalState:
    phase = replica_phase(pod)
    if phase == "Succeeded":
        return FinalState.SUCCEEDED
    if phase == "Failed":
        return FinalState.STOPPED if _was_stopped(pod) else FinalState.FAILED
    status = container_status(pod)
    waits = status is None or status.state is None or status.state.waiting is not None
    return FinalState.WAITING if phase != "Running" or waits else FinalState.RUNNING


def _was_stopped(pod: Pod) -> bool:
    """Return whether the pod was stopped while its replica was running.

    The operator, the pod's `activeDeadlineSeconds` or the end of the run (`tfoperator run`) may have stopped it.
    """
    if pod.metadata.annotations.get(ANNOTATION_STOPPED) == STOPPED_WITH_RUN:
        return True
    return pod.status.reason == _STOPPED_REASON and not stopped_with_replica(pod)


def _runs(client: Client | None, place: LogPlace, pod: Pod, status: ContainerStatus | None) -> Iterator[RunFacts]:
    if status is None:
        return
    end = _terminated(status)
    stopped = _was_stopped(pod) or _ended_by_deletion(
        pod.metadata.deletion_requested,
        end.finished_at if end is not None else None,
        end.exit_code if end is not None else None,
    )
    last = status.last_state.terminated if status.last_state is not None else None
    state = status.state
    if state is None or state.waiting is not None:
        # Until the next run begins, the container's log is still the log of the last run.
        if last is not None:
            yield _run(client, place, pod, status.name, last, previous=False)
        return
    if last is not None:
        yield _run(client, place, pod, status.name, last, previous=True)
    ended_by = "" if end is None or stopped_with_replica(pod) else pod.status.reason
    yield _run(client, place, pod, status.name, end, previous=False, stopped=stopped, ended_by=ended_by)


def _run(
    client: Client | None,
    place: LogPlace,
    pod: Pod,
    container: str,
    end: ContainerStateTerminated | None,
    *,
    previous: bool,
    stopped: bool = False,
    ended_by: str = "",
) -> RunFacts:
    bad = end is not None and end.exit_code != 0
    return RunFacts(
        exit_code=end.exit_code if end is not None else None,
        reason=ended_by or (end.reason if end is not None else ""),
        ended=end.finished_at if end is not None else None,
        stopped=stopped,
        tail=_tail(client, pod, container, TAIL_LINES if bad else _LAST_LINES, previous=previous) if client else (),
        log=place(pod, container, previous=previous),
    )


def _tail(client: Client, pod: Pod, container: str, lines: int, *, previous: bool) -> tuple[str, ...]:
    """Return the last lines of a container's log, by one request; an empty tuple if the log is not available."""
    meta = pod.metadata
    end = b""
    try:
        with client.pod_log(meta.namespace, meta.name, container, previous=previous, tail_lines=lines) as stream:
            end = end_of(stream, TAIL_BYTES)
    except KubeError as error:
        logger.debug("no log of %s: %s", meta.name, error)
    return plain_lines(shown_lines(end.decode(errors="replace")))


def _archived_tail(record: ArchivedPod, run: ArchivedContainer) -> tuple[str, ...]:
    text = read_archived(record, run, tail_lines=TAIL_LINES) or ""
    return plain_lines(shown_lines(text[-TAIL_BYTES:]))


def _ended_by_deletion(requested: datetime | None, ended: datetime | None, code: int | None) -> bool:
    """Return whether a run ended because its pod was being deleted.

    A run that ended before the deletion was requested does not count. Times have whole seconds. If `requested` and
    `ended` are in the same second, the exit code decides: an exit code that a signal causes means that the deletion
    ended the run. If the time of the end is not known, a requested deletion is enough.
    """
    if requested is None or ended is None:
        return requested is not None
    return ended > requested or (ended == requested and code in _SIGNALLED)


def _archived_runs(
    client: Client | None, records: Sequence[ArchivedPod], below: float = math.inf
) -> Iterator[RunFacts]:
    """Yield the runs of pods in the archive, the oldest first.

    Yield only runs before which the container had restarted less than `below` times. Of these runs, yield only the
    newest `_ARCHIVED_RUNS`.
    """
    containers = [(record, _archived_container(record)) for record in records]
    runs = [
        (record, container, run)
        for record, container in containers
        if container
        for run in container.runs
        if run.restarts < below
    ]
    for record, container, run in runs[-_ARCHIVED_RUNS:]:
        code = run.exit_code
        yield RunFacts(
            exit_code=code,
            reason=(record.reason if run.log == container.log else "") or run.reason,
            ended=run.finished,
            stopped=code is None
            or (record.reason == _STOPPED_REASON and run.log == container.log)
            or _ended_by_deletion(record.deletion_requested, run.finished, code),
            tail=_archived_tail(record, run) if client else (),
            log=f"{record.folder}/{run.log}",
        )


def _stacks_in(record: ArchivedPod) -> str:
    """Return the path of the archived file with the stacks of a pod's threads; "" if no stacks were taken."""
    return next((f"{record.folder}/{container.stacks}" for container in record.containers if container.stacks), "")


def _archived_container(record: ArchivedPod) -> ArchivedContainer | None:
    failed = [container for container in record.containers if container.exit_code not in (None, 0)]
    named = [container for container in (*failed, *record.containers) if container.name == DEFAULT_CONTAINER_NAME]
    return next(iter((*named, *failed, *(container for container in record.containers if not container.init))), None)
