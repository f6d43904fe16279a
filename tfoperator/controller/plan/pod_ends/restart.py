"""The rules for restarts: the meaning of a pod's end, the number of the replica's restarts, and the delay.

If the operator handles the same end of a pod twice, because of a stale cache or a crash, the restart counts once. Each
pod records the replica's number of restarts before this pod (`ANNOTATION_RESTARTS`). So the number after the pod's end
depends only on the pod: the recorded number + restarts in place (by the kubelet, in the same pod) + 1. The status
keeps the largest number that was observed for each index, and the status is written before the pod is deleted.

Some restarts are caused by disruptions. Their number is written in the same status write as the number of all restarts,
and a pod has this number, too (`ANNOTATION_DISRUPTIONS`). All other restarts are caused by failures. Only restarts
after failures count for limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

import msgspec

from tfoperator.api.pods.lost_nodes import node_is_lost
from tfoperator.api.replicas.names import (
    ANNOTATION_DISRUPTIONS,
    ANNOTATION_JOB_RESTARTS,
    ANNOTATION_RESTARTS,
    DEFAULT_CONTAINER_NAME,
    MAX_RESTARTS,
    annotated_count,
)
from tfoperator.api.replicas.replica_pods import FIRST_RETRYABLE_EXIT_CODE, training_end
from tfoperator.api.v1.choices import RestartPolicy
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import seconds_between
from tfoperator.controller.plan.values.observed import PlanOptions
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStateTerminated, PodStatus

CLOCK_SKEW = 10.0
"""The maximum difference in seconds between the clock of a node and the clock of the API server. If two times from
these clocks are further apart, the order of the two events is certain.
"""

_INFRASTRUCTURE_REASONS = frozenset(
    {
        "Evicted",
        "NodeAffinity",
        "NodeLost",
        "NodeShutdown",
        "Preempted",
        "Preempting",
        "Shutdown",
        "Terminated",
        "UnexpectedAdmissionError",
    }
)
"""Values of `status.reason` for pods that Kubernetes itself has ended: kubelet eviction, admission and shutdown,
preemption.
"""

_REFUSAL_PREFIX = "Pod was rejected: "
"""The message of each pod that a kubelet has refused begins with these words (since Kubernetes 1.26)."""

_REFUSAL_REASONS = frozenset(
    {
        "InvalidNodeInfo",
        "NodeName",
        "NodePorts",
        "PodLevelResourcesNotSupported",
        "SMTAlignmentError",
        "TaintToleration",
        "TopologyAffinityError",
        "UnexpectedPredicateFailureType",
        "UnknownReason",
        "VolumeAttachmentLimitExceeded",
    }
)
"""The reasons with which kubelets refuse pods; they are needed for messages without `_REFUSAL_PREFIX`. The set leaves
out the reasons of refusals that `_INFRASTRUCTURE_REASONS` has already.
"""

_UNSEEN_ENDS = frozenset({("ContainerStatusUnknown", 137), ("Unknown", 255)})
"""Reason and exit code of a container whose end nobody observed because its node crashed. The first pair comes from
kubelets, the second from containerd.
"""


_OVERUSE = re.compile(
    r"Container \S+ was using .+?, request is .+?, has larger consumption"  # of the resource that its node lacked
    r"|exceeds the limit|exceeds the total limit of containers|exceeded its local ephemeral storage limit"
)
"""Kubelets' messages about pods that they evict because the pods use more than they requested, or more than their own
limit.
"""


class Ending(msgspec.Struct, frozen=True):
    """The end of a pod."""

    exit_code: int | None
    """The exit code; None if no container reports an exit code."""
    reason: str
    infrastructure: bool
    """Whether Kubernetes ended the pod."""
    container: str = ""
    """The name of the container with this exit code, if the container is not `tensorflow`."""
    overuse: bool = False
    """Whether the kubelet has evicted the pod because the pod used more memory or disk space than it had requested.
    Such a pod may be restarted under every policy, because another node may have more room. But the pod itself is the
    cause, so such an end counts as a failure.
    """

    @property
    def is_disruption(self) -> bool:
        """Whether a disruption (an eviction, a node shutdown) ended the pod, and not a failure of its program.

        An eviction because the pod used more of a resource than it had requested counts as a failure.
        """
        return self.infrastructure and not self.overuse

    def __str__(self) -> str:
        if self.overuse:
            return f"{self.reason}: the pod used more of a resource than it had requested"
        if self.infrastructure or self.exit_code is None:
            return self.reason or "failed without an exit code"
        detail = f" ({self.reason})" if self.reason and self.reason != "Error" else ""
        what = f"container {self.container} " if self.container else ""
        return f"{what}exited with code {self.exit_code}{detail}"


def ending_of(pod: Pod) -> Ending:
    """Return how a failed pod (or a pod in phase Unknown) ended.

    The exit code is the exit code of the container `tensorflow`. If it is 0 or missing, the first other container that
    failed counts; init containers come last.
    """
    infrastructure = _ended_by_infrastructure(pod)
    container, terminated = _decisive_termination(pod)
    if pod.status.reason == "Evicted" and _OVERUSE.search(pod.status.message):
        code = None if terminated is None else terminated.exit_code
        return Ending(code, pod.status.reason, infrastructure=True, overuse=True)
    if terminated is None:
        return Ending(None, pod.status.reason, infrastructure)
    if is_unseen(terminated):
        return Ending(terminated.exit_code, pod.status.reason or terminated.reason, infrastructure=True)
    reason = pod.status.reason if infrastructure else terminated.reason
    return Ending(terminated.exit_code, reason, infrastructure, container)


def is_unseen(end: ContainerStateTerminated) -> bool:
    """Return whether a container's node had crashed, and therefore nobody observed this end of the container."""
    return (end.reason, end.exit_code) in _UNSEEN_ENDS


def is_permanent(ending: Ending, policy: RestartPolicy) -> bool:
    """Return whether a replica whose pod ended in this way has failed for good.

    If Kubernetes ended the pod, the end does not show whether the program works, so it is retryable under every policy.
    Any other end is permanent under Never. Under ExitCode it is permanent with an exit code below 128; without an exit
    code the replica is restarted, as in the Go operator.
    """
    if ending.infrastructure:
        return False
    if policy is RestartPolicy.EXIT_CODE:
        return ending.exit_code is not None and ending.exit_code < FIRST_RETRYABLE_EXIT_CODE
    return policy is RestartPolicy.NEVER


def ended_by_deletion(pod: Pod) -> bool:
    """Return whether the end of a terminating pod (if it has ended) came after its deletion was requested.

    After SIGTERM, the exit code of a process does not show whether its work was done: a trainer that saves a checkpoint
    on SIGTERM and exits with 0 has not finished, and a trainer that exits with 1 has not failed. If the order is
    uncertain, the deletion counts as the cause, because an unnecessary restart does less harm than a job that ends
    wrongly. The order can be uncertain for two reasons. The time of the end comes from the node's clock, and the time
    of the deletion from the API server's clock. And if a later request has changed the time of the deletion, the first
    time is unknown (`ObjectMeta.certain_deletion`).
    """
    if pod.metadata.deletion_timestamp is None:
        return False
    requested, finished = pod.metadata.certain_deletion, finished_at(pod)
    return requested is None or finished is None or seconds_between(finished, requested) < CLOCK_SKEW


def any_begun(status: PodStatus) -> bool:
    """Return whether a container has ever run, if the states of the containers show it; init containers count, too."""
    return any(
        container.restart_count > 0 or (container.state is not None and container.state.waiting is None)
        for container in (*status.init_container_statuses, *status.container_statuses)
    )


def restarts_before(pod: Pod) -> int:
    """Return the number of restarts of the pod's replica before this pod, from the annotation (0 if invalid)."""
    return annotated_count(pod.metadata.annotations, ANNOTATION_RESTARTS)


def disruptions_before(pod: Pod) -> int:
    """Return how many restarts of the replica before this pod followed disruptions (0 if the annotation is invalid)."""
    return annotated_count(pod.metadata.annotations, ANNOTATION_DISRUPTIONS)


def job_restarts_before(pod: Pod) -> int:
    """Return how often all replicas had been restarted together before this pod (0 if the annotation is invalid)."""
    return annotated_count(pod.metadata.annotations, ANNOTATION_JOB_RESTARTS)


def job_restarts_so_far(job: TFJob, pods: Iterable[Pod]) -> int:
    """Return how often all replicas were restarted together: the largest number in the status and the pods.

    If the cache has an old status, the pods may have a larger number.
    """
    number = max(min(job.status.job_restarts, MAX_RESTARTS), 0)
    for pod in pods:
        # This check saves time, because few pods have the annotation.
        if ANNOTATION_JOB_RESTARTS in pod.metadata.annotations:
            number = max(number, job_restarts_before(pod))
    return number


def restarts_in_place(pod: Pod) -> int:
    """Return how often the kubelet restarted `tensorflow` or an init container.

    The Go operator counts init containers, too.
    """
    restarts = 0
    trains = [container for container in pod.status.container_statuses if container.name == DEFAULT_CONTAINER_NAME]
    for container in (*trains, *pod.status.init_container_statuses):
        if container.restart_count > 0:
            restarts += min(container.restart_count, MAX_RESTARTS)
    return restarts


def restart_delay(restart: int, options: PlanOptions) -> float:
    """Return the seconds between the start of a program and its `restart`-th restart (from 1).

    The delay is `restart_delay_base` for the first restart, doubles with each restart, and is at most
    `restart_delay_cap`.
    """
    # The delay reaches the cap long before 2**40, and a large exponent would overflow the float.
    return min(options.restart_delay_base * 2.0 ** min(max(restart, 1) - 1, 40), options.restart_delay_cap)


def restart_wait(pod: Pod, restart: int, now: datetime, options: PlanOptions) -> float:
    """Return the seconds until a failed pod may be replaced: 0 if it may be replaced now, at most twice the delay.

    The delay begins when the program starts. So a program that fails at once is not restarted over and over, and a
    program that ran for longer than the delay is replaced at once. If the program never ran (the pod was evicted, or
    refused by the kubelet), the delay begins at the pod's `startTime`, or else at the pod's creation.

    The start of a program is a time of the node's clock. Container runtimes report 1970 for a program that could not be
    started. But a program always starts after its pod was created. So the creation replaces an earlier start. The
    creation also replaces the start if the node's clock is ahead by more than the delay.
    """
    created = pod.metadata.creation_timestamp
    started = _started_at(pod) or pod.status.start_time or created
    if started is None:
        return 0.0
    delay = restart_delay(restart, options)
    elapsed = seconds_between(started, now)
    if created is not None:
        since_creation = seconds_between(created, now)
        elapsed = since_creation if elapsed < -delay else min(elapsed, since_creation)
    left = delay - elapsed
    return left if 0 < left <= 2 * delay else 0.0


def overdue_seconds(pod: Pod, now: datetime, options: PlanOptions) -> float | None:
    """Return the seconds since a terminating pod on a lost node may be deleted by force.

    The number is negative before that time. Return None for every other pod, and after the forced deletion was
    requested (then finalizers may still keep the pod).
    """
    deletion = pod.metadata.deletion_timestamp
    if deletion is None or pod.metadata.deletion_grace_period_seconds == 0 or not node_is_lost(pod):
        return None
    return seconds_between(deletion, now) - options.node_lost_margin


def _ended_by_infrastructure(pod: Pod) -> bool:
    status = pod.status
    if status.reason in _INFRASTRUCTURE_REASONS or status.reason.startswith("OutOf") or status.phase == "Unknown":
        return True
    if any(c.type == "DisruptionTarget" and c.status == "True" for c in status.conditions):
        return True
    return was_refused(status)


def was_refused(status: PodStatus) -> bool:
    """Return whether the kubelet refused to run the pod. The node had no room, or the pod does not fit the node."""
    if not status.reason or any_begun(status):
        return False
    return status.message.startswith(_REFUSAL_PREFIX) or status.reason in _REFUSAL_REASONS


def _decisive_termination(pod: Pod) -> tuple[str, ContainerStateTerminated | None]:
    """Return the container because of which the pod failed (empty for `tensorflow`), and its end.

    If no container failed, the end is None.
    """
    # A stable sort: `tensorflow` first, the others in their order.
    containers = sorted(pod.status.container_statuses, key=lambda c: c.name != DEFAULT_CONTAINER_NAME)
    for container in (*containers, *pod.status.init_container_statuses):
        terminated = container.state.terminated if container.state else None
        if terminated is not None and terminated.exit_code != 0:
            return "" if container.name == DEFAULT_CONTAINER_NAME else container.name, terminated
    return "", None


def finished_at(pod: Pod) -> datetime | None:
    """Return when the container `tensorflow` ended, by the node's clock.

    If the end of `tensorflow` is unknown, return when the last other container ended. Return None if the pod's status
    shows no end at all.
    """
    end = training_end(pod)
    if end is not None and end.finished_at is not None:
        return end.finished_at
    latest: datetime | None = None
    for container in pod.status.container_statuses or pod.status.init_container_statuses:
        terminated = container.state.terminated if container.state else None
        finished = terminated.finished_at if terminated else None
        if finished is not None and (latest is None or seconds_between(latest, finished) > 0):
            latest = finished
    return latest


def _started_at(pod: Pod) -> datetime | None:
    """Return the start time of the failed container, by the node's clock.

    Return None if the pod's status does not contain this time.
    """
    terminated = _decisive_termination(pod)[1]
    return None if terminated is None else terminated.started_at
