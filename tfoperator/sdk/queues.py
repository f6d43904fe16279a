"""The state of a job in its queue.

The state comes from the job's Workload, an object of Kueue, if the cluster has Kueue and the user may read Workloads.
Only jobs with the label `kueue.x-k8s.io/queue-name`, and jobs that MultiKueue manages, cause requests. If data are not
available, the result contains the reason, and the functions raise no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from tfoperator.api.kueue.queues import JOB_UID_LABEL, is_multikueue, queue_name
from tfoperator.api.kueue.workloads import (
    CLUSTER_VERSIONS,
    WORKLOAD_VERSIONS,
    Workload,
    WorkloadCondition,
    decode_cluster,
    decode_workload,
)
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.protocol.errors import ForbiddenError, KubeError, NotFoundError
from tfoperator.kube.protocol.options import Selection
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ApiClient, ListWatch
from tfoperator.kube.watching.listing import list_all

_MAX_MESSAGE = 2000
"""The maximum number of characters of a message. An API server stores up to 32 KiB for each message."""

_JOBS_PER_REQUEST = 50
"""The number of jobs in a request. The jobs' UIDs make 2 KB of its URL."""


class QueueState(StrEnum):
    """The state of a job in its queue, as a single word."""

    WAITING = "Waiting"
    """The job waits for quota."""
    CHECKING = "Checking"
    """The job has quota, and waits for admission checks."""
    ADMITTED = "Admitted"
    """The job may run."""
    EVICTED = "Evicted"
    """The job's running pods are being stopped. Then the job returns to its queue."""
    INACTIVE = "Inactive"
    """Kueue ignores the job until a user sets `spec.active` of its Workload to true."""
    FINISHED = "Finished"
    UNKNOWN = "Unknown"
    """The job has no Workload, or the Workload can't be read."""
    NO_KUEUE = "NoKueue"
    """The cluster has no Kueue (no resource `workloads`), so the job's queue label has no effect."""


class JobQueue(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a job in its queue.

    - `name` is the name of the LocalQueue, or "" if MultiKueue manages a job that has no queue label.
    - `message` is Kueue's reason for the state.
    - `workload` is the name of the Workload, or "" if there is no Workload.
    - `cluster_queue` is the ClusterQueue that has the quota.
    - `multikueue` is true if the job runs on another cluster. Then the operator of this cluster ignores the job.
    - `cluster` is the name of the other cluster, or "" if Kueue has not chosen it yet.
    - `problem` is the reason why Kueue can't reach the other cluster, or "". While Kueue can't reach it, this cluster's
      data about the job may be old.
    - `by_operator`: if it is true, Kueue's built-in TFJob integration does not manage the job, so users can suspend and
      resume the job.
    """

    name: str
    state: QueueState
    message: str = ""
    workload: str = ""
    cluster_queue: str = ""
    multikueue: bool = False
    cluster: str = ""
    problem: str = ""
    by_operator: bool = False

    @property
    def waits(self) -> bool:
        """Whether the queue keeps the job from running."""
        return self.state not in (QueueState.ADMITTED, QueueState.FINISHED, QueueState.NO_KUEUE)

    @property
    def title(self) -> str:
        """The name of the queue (`research`), or `MultiKueue` if the job has no queue of its own."""
        return self.name or "MultiKueue"

    def __str__(self) -> str:
        """Return the state as text: `research: Waiting: insufficient quota ...`."""
        if self.state is QueueState.ADMITTED:
            by = f" by ClusterQueue {self.cluster_queue}" if self.cluster_queue else ""
            on = f", runs on cluster {self.cluster}" if self.cluster else ""
            which = f", which {self.problem}" if self.problem else ""
            return f"{self.title}: {self.state}{by}{on}{which}"
        return f"{self.title}: {self.state}" + (f": {self.message}" if self.message else "")


def in_queue(job: TFJob) -> bool:
    """Return whether the job has the label `kueue.x-k8s.io/queue-name`, or MultiKueue manages it."""
    return bool(queue_name(job.metadata.labels)) or is_multikueue(job)


def job_queue(client: ApiClient, job: TFJob) -> JobQueue | None:
    """Return the job's state in its queue. If the job has no queue, return None without a request. Never raises."""
    return job_queues(client, [job]).get(job.metadata.uid)


def job_queues(client: ApiClient, jobs: Iterable[TFJob]) -> dict[str, JobQueue]:
    """Return the states of jobs in their queues, by UID. Jobs that have no queue are left out. Never raises.

    The function makes one request for each fifty jobs of a namespace (ended jobs do not count), and one request for
    each cluster on which MultiKueue runs some of these jobs. If Kueue is older than 0.15, it makes one more request.
    """
    states: dict[str, JobQueue] = {}
    asked: dict[str, dict[str, TFJob]] = {}
    for job in filter(in_queue, jobs):
        meta = job.metadata
        if final_condition(job) is not None:
            states[meta.uid] = JobQueue(queue_name(meta.labels), QueueState.FINISHED, multikueue=is_multikueue(job))
        else:
            asked.setdefault(meta.namespace, {})[meta.uid] = job
    for namespace, waiting in asked.items():
        uids = list(waiting)
        for first in range(0, len(uids), _JOBS_PER_REQUEST):
            states |= _ask(client, namespace, {uid: waiting[uid] for uid in uids[first : first + _JOBS_PER_REQUEST]})
    return _with_problems(client, states)


def cluster_of(client: ApiClient, job: TFJob) -> str:
    """Return the cluster on which MultiKueue runs or ran the job.

    Return "" if no cluster is chosen or known. Never raises. The function makes one request, even for a job that has
    ended.
    """
    meta = job.metadata
    try:
        workloads = _workloads(client, meta.namespace, Selection(label_selector=f"{JOB_UID_LABEL}={meta.uid}"))
    except KubeError:
        return ""
    return queue_of(job, workloads).cluster if workloads else ""


def _with_problems(client: ApiClient, states: dict[str, JobQueue]) -> dict[str, JobQueue]:
    clusters = {queue.cluster for queue in states.values() if queue.cluster}
    problems = {cluster: problem for cluster in sorted(clusters) if (problem := _problem(client, cluster))}
    return {
        uid: msgspec.structs.replace(queue, problem=problems[queue.cluster]) if queue.cluster in problems else queue
        for uid, queue in states.items()
    }


def _problem(client: ApiClient, cluster: str) -> str:
    """Return the reason why Kueue can't reach the cluster.

    Return "" if it can, or if this user has no right to read the reason.
    """
    for resource in CLUSTER_VERSIONS:
        try:
            multikueue_cluster = client.get(resource, "", cluster, decode_cluster)
        except NotFoundError:
            continue
        except KubeError:
            return ""
        lost = next(
            (
                condition
                for condition in multikueue_cluster.status.conditions
                if condition.type == "Active" and condition.status == "False"
            ),
            None,
        )
        if lost is None:
            return ""
        return "Kueue can't reach now" + (f" ({_one_line(lost.message)})" if lost.message else "")
    return "MultiKueue no longer has in its configuration"


def _ask(client: ApiClient, namespace: str, jobs: Mapping[str, TFJob]) -> dict[str, JobQueue]:
    selection = Selection(label_selector=f"{JOB_UID_LABEL} in ({','.join(jobs)})")
    try:
        workloads = _workloads(client, namespace, selection)
    except NotFoundError:
        return {
            uid: _without_workload(job, QueueState.NO_KUEUE, "the cluster has no Kueue, so jobs don't wait in queues")
            for uid, job in jobs.items()
        }
    except KubeError as error:
        why = (
            "you have no permission to read it (list workloads.kueue.x-k8s.io)"
            if isinstance(error, ForbiddenError)
            else str(error)
        )
        message = f"its Workload can't be read: {why}"
        return {uid: _without_workload(job, QueueState.UNKNOWN, message) for uid, job in jobs.items()}
    by_job: dict[str, list[Workload]] = {}
    for workload in workloads:
        by_job.setdefault(workload.metadata.labels.get(JOB_UID_LABEL, ""), []).append(workload)
    return {uid: queue_of(job, by_job.get(uid, ())) for uid, job in jobs.items()}


def _workloads(client: ApiClient, namespace: str, selection: Selection) -> list[Workload]:
    """Return the selected Workloads. Raises NotFoundError if the cluster has no Kueue, or another KubeError."""
    *newer, oldest = WORKLOAD_VERSIONS
    for resource in newer:
        try:
            return _list(client, resource, namespace, selection)
        except NotFoundError:
            continue
    return _list(client, oldest, namespace, selection)


def _list(client: ApiClient, resource: Resource, namespace: str, selection: Selection) -> list[Workload]:
    return list_all(ListWatch(client, resource, namespace, decode_workload, selection)).items


def queue_of(job: TFJob, workloads: Sequence[Workload]) -> JobQueue:
    """Return a job's state in its queue, computed from the job's Workloads. The function does no I/O."""
    if not workloads:
        message = (
            "Kueue has no Workload for this job. Perhaps the job is suspended, Kueue does not run, or the operator "
            "runs without --kueue and kubeflow.org/tfjob is not among Kueue's integrations. Also read the job's events"
        )
        queue = _without_workload(job, QueueState.UNKNOWN, message)
        return msgspec.structs.replace(queue, by_operator=not queue.multikueue)
    # An elastic job that requests more workers has a second Workload, which waits for quota. The first Workload has the
    # state of the job.
    workload = max(
        workloads,
        key=lambda candidate: (not candidate.is_true("Finished"), candidate.is_true("QuotaReserved"), *_age(candidate)),
    )
    state, message = _state(workload)
    admission = workload.status.admission
    return JobQueue(
        queue_name(job.metadata.labels) or workload.spec.queue_name,
        state,
        _one_line(message),
        workload.metadata.name,
        admission.cluster_queue if admission is not None else "",
        is_multikueue(job),
        workload.status.cluster_name,
        by_operator=bool(workload.mark),
    )


def _one_line(text: str) -> str:
    """Return a message from Kueue without line ends, so that it can't look like several messages of tfoperator.

    A long message is cut.
    """
    line = " ".join(text.split())
    return line if len(line) <= _MAX_MESSAGE else f"{line[:_MAX_MESSAGE]} ..."


def _without_workload(job: TFJob, state: QueueState, message: str) -> JobQueue:
    return JobQueue(queue_name(job.metadata.labels), state, message, multikueue=is_multikueue(job))


def _age(workload: Workload) -> tuple[float, str]:
    created = workload.metadata.creation_timestamp
    return (0.0 if created is None else created.timestamp(), workload.metadata.name)


def _state(workload: Workload) -> tuple[QueueState, str]:
    quota, evicted = workload.condition("QuotaReserved"), workload.condition("Evicted")
    has_quota, is_evicted = quota.status == "True", evicted.status == "True"
    if workload.is_true("Finished"):
        return QueueState.FINISHED, workload.condition("Finished").message
    if has_quota and is_evicted:
        return QueueState.EVICTED, _sentence(evicted)
    if workload.spec.active is False:
        why = f" ({evicted.message})" if is_evicted and evicted.message else ""
        return QueueState.INACTIVE, f"Workload {workload.metadata.name} is not active{why}"
    if workload.is_true("Admitted"):
        return QueueState.ADMITTED, workload.condition("Admitted").message
    if has_quota:
        offered = ", ".join(workload.status.nominated_cluster_names)
        message = _checks(workload) or quota.message
        return QueueState.CHECKING, message + (f"; offered to cluster {offered}" if offered else "")
    return QueueState.WAITING, _why_it_waits(workload, quota, evicted)


def _why_it_waits(workload: Workload, quota: WorkloadCondition, evicted: WorkloadCondition) -> str:
    """Return Kueue's reason why the job waits for quota.

    If Kueue has evicted the job before, the text also contains the reason of the eviction.
    """
    reasons = [quota.message or "Kueue has not processed its Workload yet"]
    if evicted.status == "True" and evicted.message == quota.message:
        reasons = [_sentence(evicted)]
    elif evicted.status == "True":
        reasons.append(f"evicted before ({_sentence(evicted)})")
    requeue = workload.status.requeue_state
    if requeue is not None and requeue.requeue_at is not None and evicted.status == "True":
        reasons.append(f"tried again at {requeue.requeue_at.isoformat(timespec='seconds')}")
    return "; ".join(reasons)


def _sentence(condition: WorkloadCondition) -> str:
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason


def _checks(workload: Workload) -> str:
    """Return a text about the admission checks that have not passed."""
    waiting = [check for check in workload.status.admission_checks if check.state != "Ready"]
    return ", ".join(
        f"admission check {check.name} is {check.state}" + (f": {check.message}" if check.message else "")
        for check in waiting
    )
