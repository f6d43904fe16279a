"""What a TFJob's conditions and a pod's status say, in one word or line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfoperator.api.names import DEFAULT_CONTAINER_NAME, JOB_ROLE_MASTER, LABEL_JOB_ROLE, parse_replica_type, replica_of
from tfoperator.api.v1.types import ConditionType, JobCondition, ReplicaType, TFJob
from tfoperator.kube.objects import ContainerStatus, Pod

__all__ = [
    "condition_of",
    "container_status",
    "final_condition",
    "has_condition",
    "has_started",
    "job_state",
    "pod_order",
    "replica_key",
    "replica_name",
    "select_pods",
    "waiting_reason",
]

_BY_WEIGHT = (
    ConditionType.FAILED,
    ConditionType.SUCCEEDED,
    ConditionType.SUSPENDED,
    ConditionType.RESTARTING,
    ConditionType.RUNNING,
    ConditionType.CREATED,
)
_STARTING = frozenset(("", "ContainerCreating", "PodInitializing"))


def condition_of(job: TFJob, condition: str) -> JobCondition | None:
    """The condition of that type, whatever its status, or None."""
    return next((found for found in job.status.conditions if found.type == condition), None)


def has_condition(job: TFJob, condition: str) -> bool:
    """Whether the condition is true."""
    found = condition_of(job, condition)
    return found is not None and found.status == "True"


def final_condition(job: TFJob) -> JobCondition | None:
    """The condition that says how the job ended; None while it has not."""
    for condition in (ConditionType.FAILED, ConditionType.SUCCEEDED):
        if has_condition(job, condition):
            return condition_of(job, condition)
    return None


def job_state(job: TFJob) -> str:
    """One word for people: Terminating, the weightiest true condition, or Pending."""
    if job.metadata.deletion_timestamp is not None:
        return "Terminating"
    return next((str(condition) for condition in _BY_WEIGHT if has_condition(job, condition)), "Pending")


def replica_key(specs: Mapping[str, object], replica_type: str) -> str | None:
    """The key of `tfReplicaSpecs` that means this type, however it is spelled (`worker`, `Worker`)."""
    return next((key for key in specs if key.lower() == replica_type.lower()), None)


def replica_name(pod: Pod) -> str:
    """`worker-0` for the pod of a replica, the pod's own name for any other."""
    replica = replica_of(pod.metadata.labels)
    return f"{replica[0].lower()}-{replica[1]}" if replica is not None else pod.metadata.name


def pod_order(pod: Pod) -> tuple[int, int, str]:
    """Sorts pods as people think of them: chief, workers by number, evaluator, parameter servers."""
    replica = replica_of(pod.metadata.labels)
    if replica is None:
        return len(_ORDER), 0, pod.metadata.name
    return _ORDER.index(replica[0]), replica[1], pod.metadata.name


_ORDER = (ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.WORKER, ReplicaType.EVALUATOR, ReplicaType.PS)


def select_pods(
    pods: Iterable[Pod],
    *,
    is_master: bool = False,
    replica_type: str | None = None,
    replica_index: int | None = None,
) -> list[Pod]:
    """Those pods that match every filter given, in the order of `pod_order`.

    `is_master` picks the one that leads the job (chief or master, else worker 0). Raises ValueError for a replica
    type that does not exist.
    """
    wanted = None if replica_type is None else parse_replica_type(replica_type)
    if replica_type is not None and wanted is None:
        known = ", ".join(ReplicaType)
        raise ValueError(f"{replica_type!r} is no replica type; there are {known}")
    return sorted((pod for pod in pods if _matches(pod, is_master, wanted, replica_index)), key=pod_order)


def _matches(pod: Pod, is_master: bool, replica_type: ReplicaType | None, index: int | None) -> bool:
    labels = pod.metadata.labels
    if is_master and labels.get(LABEL_JOB_ROLE) != JOB_ROLE_MASTER:
        return False
    if replica_type is None and index is None:
        return True
    replica = replica_of(labels)
    if replica is None:
        return False
    return replica_type in (None, replica[0]) and index in (None, replica[1])


def container_status(pod: Pod, container: str = "") -> ContainerStatus | None:
    """The status of the container of that name; without a name `tensorflow`, else the first."""
    statuses = pod.status.container_statuses
    name = container or DEFAULT_CONTAINER_NAME
    named = next((status for status in statuses if status.name == name), None)
    return named if named is not None or container else next(iter(statuses), None)


def has_started(status: ContainerStatus | None) -> bool:
    """Whether the container has a log: it runs, has ended, or ran before."""
    if status is None:
        return False
    if status.state is not None and status.state.waiting is None:
        return True
    return status.last_state is not None and status.last_state.terminated is not None


def waiting_reason(pod: Pod) -> str:
    """Why the pod is not running, as far as anybody said: `ImagePullBackOff: message`; else empty."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting if status.state is not None else None
        if waiting is not None and waiting.reason not in _STARTING:
            return _reason(waiting.reason, waiting.message)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return _reason(condition.reason, condition.message)
    if pod.status.phase not in ("Running", "Succeeded"):
        return _reason(pod.status.reason, pod.status.message)
    return ""


def _reason(reason: str, message: str) -> str:
    return f"{reason}: {message}" if reason and message else reason or message
