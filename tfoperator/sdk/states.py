"""Describes the replicas of a TFJob: how many are ready, the state of a pod as a word, and why a pod waits.

The module does no I/O. The state of the job itself is `TFJob.state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from tfoperator.api.kueue.queues import is_multikueue
from tfoperator.api.replicas.names import (
    ANNOTATION_STOPPED,
    DEFAULT_CONTAINER_NAME,
    JOB_ROLE_MASTER,
    LABEL_JOB_ROLE,
    STOPPED_WITH_REPLICA,
    parse_replica_type,
    replica_of,
)
from tfoperator.api.replicas.replica_pods import ENDED_PHASES, replica_phase
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.job_conditions import ready_by_message
from tfoperator.api.v1.types import TFJob
from tfoperator.api.waiting import Reason, ReasonKind, reasons_of, why_it_waits
from tfoperator.kube.views.event import Event
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStateWaiting, ContainerStatus

_STARTING = frozenset(("", "ContainerCreating", "PodInitializing"))


def wanted_replicas(job: TFJob) -> dict[str, int]:
    """Return the requested number of replicas of each type."""
    return {kind: spec.desired for kind, spec in job.spec.tf_replica_specs.items() if spec is not None}


def ready_text(job: TFJob) -> str:
    """Return a text such as `3/4`: the number of ready replicas, and the number of all replicas.

    Return `-` if MultiKueue runs the job and the numbers are not known.
    """
    if job.status.ready:
        return job.status.ready
    wanted = sum(wanted_replicas(job).values())
    if is_multikueue(job):
        return ready_by_message(job, wanted) or "-"
    return f"{sum(status.ready for status in job.status.replica_statuses.values())}/{wanted}"


def restart_count(job: TFJob) -> int | None:
    """Return the total number of restarts of the job's replicas.

    Return None if MultiKueue runs the job and its status has no number, because MultiKueue does not report this number.
    """
    return job.status.restarts or (None if is_multikueue(job) else 0)


def replica_key(specs: Mapping[str, object], replica_type: str) -> str | None:
    """Return the key of this replica type in `tfReplicaSpecs`; None if it has no such key.

    The letter case of `replica_type` does not matter: `worker` finds `Worker`.
    """
    return next((key for key in specs if key.lower() == replica_type.lower()), None)


def pod_order(pod: Pod) -> tuple[int, int, str]:
    """Return the sort key of a pod. The order is: chief, workers by number, evaluator, parameter servers."""
    replica = replica_of(pod.metadata.labels)
    if replica is None:
        return len(_TYPE_ORDER), 0, pod.metadata.name
    return _TYPE_ORDER.index(replica[0]), replica[1], pod.metadata.name


_TYPE_ORDER = (ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.WORKER, ReplicaType.EVALUATOR, ReplicaType.PS)


class ReplicaFilter(msgspec.Struct, frozen=True):
    """Selects the pods of a job that match all given values.

    `is_master` selects the pod that leads the job: the chief or the master, or worker 0 if there is neither. Raises
    ValueError if the replica type does not exist.
    """

    is_master: bool = False
    replica_type: str | None = None
    replica_index: int | None = None

    def __post_init__(self) -> None:
        if self.replica_type is not None and parse_replica_type(self.replica_type) is None:
            raise ValueError(f"{self.replica_type!r} is not a replica type; the types are {', '.join(ReplicaType)}")

    @classmethod
    def or_master(cls, is_master: bool, replica_type: str | None, replica_index: int | None) -> ReplicaFilter:
        """Return a filter in which `is_master` has an effect only if neither a type nor an index is given."""
        return cls(is_master and replica_type is None and replica_index is None, replica_type, replica_index)

    @property
    def single(self) -> bool:
        """Whether the filter can match only one replica."""
        return self.is_master or (self.replica_type is not None and self.replica_index is not None)

    def select(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return the matching pods, in the order of `pod_order`."""
        return sorted(filter(self.matches, pods), key=pod_order)

    def matches(self, pod: Pod) -> bool:
        """Return whether this pod matches."""
        labels = pod.metadata.labels
        if self.is_master and labels.get(LABEL_JOB_ROLE) != JOB_ROLE_MASTER:
            return False
        if self.replica_type is None and self.replica_index is None:
            return True
        replica = replica_of(labels)
        if replica is None:
            return False
        wanted = None if self.replica_type is None else parse_replica_type(self.replica_type)
        return wanted in (None, replica[0]) and self.replica_index in (None, replica[1])


def was_stopped(pod: Pod) -> bool:
    """Return whether the operator stopped the pod because its job ended.

    The exit code of such a pod shows only that it was stopped.
    """
    # The annotation alone is not enough, because a user may set it. To stop a pod, the operator also sets
    # activeDeadlineSeconds.
    by_job = pod.metadata.annotations.get(ANNOTATION_STOPPED) if pod.spec.active_deadline_seconds is not None else None
    return bool(by_job) and by_job != STOPPED_WITH_REPLICA


def replica_state(pod: Pod) -> str:
    """Return a pod's state as a word, for example `Running`, `Stopping` or `ImagePullBackOff`.

    If the end of the job stops the pod, the word is `Stopping`, and `Stopped` after the pod has ended. If the pod is
    being deleted, the word is `Stopping`. If a container waits, the word is the container's reason. In all other cases,
    the word is the pod's phase.
    """
    phase = replica_phase(pod) or "Pending"
    if was_stopped(pod) and phase != "Succeeded":
        return "Stopped" if pod.status.phase == "Failed" else "Stopping"
    if pod.metadata.deletion_timestamp is not None and phase not in ENDED_PHASES:
        return "Stopping"
    waiting = waiting_state(pod)
    return phase if waiting is None else waiting.reason


def waiting_state(pod: Pod) -> ContainerStateWaiting | None:
    """Return the waiting state of the first container that waits, for example with the reason `ImagePullBackOff`.

    Containers that are just being started (`ContainerCreating`) do not count. Return None if no other container waits.
    """
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    states = (status.state.waiting for status in statuses if status.state is not None)
    return next((waiting for waiting in states if waiting is not None and waiting.reason not in _STARTING), None)


def container_status(pod: Pod, container: str = "") -> ContainerStatus | None:
    """Return the status of the container with this name.

    Without a name, return the status of `tensorflow`, or else of the first container.
    """
    statuses = pod.status.container_statuses
    name = container or DEFAULT_CONTAINER_NAME
    named = next((status for status in statuses if status.name == name), None)
    return named if named is not None or container else next(iter(statuses), None)


def has_started(status: ContainerStatus | None) -> bool:
    """Return whether the container has a log: it is running, has ended, or ran before."""
    if status is None:
        return False
    if status.state is not None and status.state.waiting is None:
        return True
    return status.last_state is not None and status.last_state.terminated is not None


def waiting_reason(
    pod: Pod, job: TFJob | None = None, now: datetime | None = None, events: Iterable[Event] = ()
) -> str:
    """Return why the pod is not running, with a next step, in the same words as the job's conditions.

    Return "" for a running pod. `job` has the pod template, which names the images and volumes. With `now`, a pod that
    has been starting for a long time also has a reason. Pass `events` to include the reason why a volume is not
    mounted.
    """
    reason = _reason_of(pod, job, now)
    if reason is None:
        return _words(pod.status.reason, pod.status.message) if replica_phase(pod) == "Failed" else ""
    if reason.kind is not ReasonKind.PREPARED:
        return reason.in_full()
    warnings = [
        event for event in events if event.involved_object.name == pod.metadata.name and event.type == "Warning"
    ]
    newest = max(warnings, key=lambda event: event.last_seen, default=None)
    return str(reason) if newest is None else f"{reason}. Its last event: {_words(newest.reason, newest.message)}"


def is_prepared(pod: Pod, job: TFJob, now: datetime) -> bool:
    """Return whether the kubelet has been preparing the pod (volumes, network) for a long time.

    Only events show the cause.
    """
    reason = _reason_of(pod, job, now)
    return reason is not None and reason.kind is ReasonKind.PREPARED


def _reason_of(pod: Pod, job: TFJob | None, now: datetime | None) -> Reason | None:
    replica = replica_of(pod.metadata.labels)
    spec = None if job is None or replica is None else job.spec.tf_replica_specs.get(replica[0])
    return why_it_waits(pod, None, now, None if spec is None else spec.template)


def reasons_without_pods(job: TFJob) -> Mapping[str, str]:
    """Return the reasons in `status.waiting` why replicas have no running pod, by replica name (`worker-1`)."""
    return {f"{kind.lower()}-{index}": str(reason) for (kind, index), reason in reasons_of(job.status.waiting).items()}


def _words(reason: str, message: str) -> str:
    return f"{reason}: {message}" if reason and message else reason or message
