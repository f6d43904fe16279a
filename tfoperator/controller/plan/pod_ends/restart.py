"""The rules of restarting: the meaning of a pod's end, the count of its replica's restarts, and the delay.

Restarts are counted so that acting twice on one death, on a stale cache or after a crash of the operator, counts it
once. A pod carries the number of restarts before it (`ANNOTATION_RESTARTS`), so the count after its death is a function
of the pod alone: base + restarts in place + 1. The status keeps the maximum ever seen per index, and it is written
before the pod is deleted.

Some of these restarts follow on disruptions. Their number is written in the same status write as the number of all, and
a pod carries it, too (`ANNOTATION_DISRUPTIONS`). The others follow on failures, and those alone are limited.
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
from tfoperator.kube.views.objects import ContainerStateTerminated, Pod, PodStatus

CLOCK_SKEW = 10.0
"""Seconds between events by the clocks of a node and of the API server, from which on their order is certain."""

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
"""`status.reason` of pods that Kubernetes itself ended: kubelet eviction, admission and shutdown, preemption."""

_REFUSAL_PREFIX = "Pod was rejected: "
"""The first words of the message of each pod that a kubelet has refused (since Kubernetes 1.26)."""

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
"""Reasons of kubelets' refusals, for pods whose messages don't show them. Others are infrastructure's anyway."""

_UNSEEN_ENDS = frozenset({("ContainerStatusUnknown", 137), ("Unknown", 255)})
"""Reason and exit code of containers whose end was not observed, since their node crashed: kubelets', containerd's."""


_OVERUSE = re.compile(
    r"Container \S+ was using .+?, request is .+?, has larger consumption"  # of what its node lacked
    r"|exceeds the limit|exceeds the total limit of containers|exceeded its local ephemeral storage limit"
)
"""Kubelets' messages about pods that they evict for using more than they asked for, or than their own limit."""


class Ending(msgspec.Struct, frozen=True):
    """The end of a pod. `exit_code` is None if no container reports it; `infrastructure`: Kubernetes ended it.

    `container` is the name of the container whose exit code it is, unless it is `tensorflow`. `overuse`: its kubelet
    has evicted it because it used more memory or disk than it asked for. It may start again under every policy, for
    another node may have room; but it is the pod's own doing, so it counts as a failure.
    """

    exit_code: int | None
    reason: str
    infrastructure: bool
    container: str = ""
    overuse: bool = False

    @property
    def is_disruption(self) -> bool:
        """Whether the pod was taken from its job, which is no failure."""
        return self.infrastructure and not self.overuse

    def __str__(self) -> str:
        if self.overuse:
            return f"{self.reason}: it used more of a resource than it had requested"
        if self.infrastructure or self.exit_code is None:
            return self.reason or "failed without an exit code"
        detail = f" ({self.reason})" if self.reason and self.reason != "Error" else ""
        what = f"container {self.container} " if self.container else ""
        return f"{what}exited with code {self.exit_code}{detail}"


def ending_of(pod: Pod) -> Ending:
    """Return how a failed pod (or one of phase Unknown) ended.

    The exit code is the code of the container `tensorflow`; if that is 0 or missing, the first other container that
    failed counts, init containers last.
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
    """Return whether this end of a container was not observed, because its node crashed."""
    return (end.reason, end.exit_code) in _UNSEEN_ENDS


def is_permanent(ending: Ending, policy: RestartPolicy) -> bool:
    """Return whether a replica with this ending has failed for good.

    An end by Kubernetes does not show how the program works, and is retryable under every policy. Any other end is
    permanent under Never, and under ExitCode with an exit code below 128; without an exit code that policy retries,
    like the Go operator.
    """
    if ending.infrastructure:
        return False
    if policy is RestartPolicy.EXIT_CODE:
        return ending.exit_code is not None and ending.exit_code < FIRST_RETRYABLE_EXIT_CODE
    return policy is RestartPolicy.NEVER


def ended_by_deletion(pod: Pod) -> bool:
    """Return whether a terminating pod's end (if it has ended) came after its deletion was requested.

    The exit of a process after SIGTERM does not show whether its work was done: a trainer that saves a checkpoint on
    SIGTERM and exits with 0 has not finished, and a trainer that exits with 1 has not failed. In doubt the deletion
    is the cause, since a replica that runs again does less harm than a job that ends wrongly. Doubt remains because
    the end is by the node's clock and the deletion by the API server's clock, and because the time of the deletion is
    uncertain where a later request moved it (`ObjectMeta.certain_deletion`).
    """
    if pod.metadata.deletion_timestamp is None:
        return False
    requested, finished = pod.metadata.certain_deletion, finished_at(pod)
    return requested is None or finished is None or seconds_between(finished, requested) < CLOCK_SKEW


def any_begun(status: PodStatus) -> bool:
    """Return whether a container has ever run, as far as the containers' own states show; init containers count."""
    return any(
        container.restart_count > 0 or (container.state is not None and container.state.waiting is None)
        for container in (*status.init_container_statuses, *status.container_statuses)
    )


def restarts_before(pod: Pod) -> int:
    """Return the number of restarts of the pod's replica before this pod (its annotation; invalid is 0)."""
    return annotated_count(pod.metadata.annotations, ANNOTATION_RESTARTS)


def disruptions_before(pod: Pod) -> int:
    """Return how many restarts of the pod's replica before this pod followed on disruptions (invalid is 0)."""
    return annotated_count(pod.metadata.annotations, ANNOTATION_DISRUPTIONS)


def job_restarts_before(pod: Pod) -> int:
    """Return the number of restarts of all replicas of the job together before this pod (invalid is 0)."""
    return annotated_count(pod.metadata.annotations, ANNOTATION_JOB_RESTARTS)


def job_restarts_so_far(job: TFJob, pods: Iterable[Pod]) -> int:
    """Return the number of restarts of all replicas together: by the status, or by a pod if the status is stale."""
    number = max(min(job.status.job_restarts, MAX_RESTARTS), 0)
    for pod in pods:
        # Nearly no pod has the annotation.
        if ANNOTATION_JOB_RESTARTS in pod.metadata.annotations:
            number = max(number, job_restarts_before(pod))
    return number


def restarts_in_place(pod: Pod) -> int:
    """Return how often the kubelet restarted `tensorflow`, or an init container, which the Go operator counts, too."""
    restarts = 0
    trains = [container for container in pod.status.container_statuses if container.name == DEFAULT_CONTAINER_NAME]
    for container in (*trains, *pod.status.init_container_statuses):
        if container.restart_count > 0:
            restarts += min(container.restart_count, MAX_RESTARTS)
    return restarts


def restart_delay(restart: int, options: PlanOptions) -> float:
    """Return the seconds from a program's start to its `restart`-th restart (from 1): base doubled, up to the cap."""
    # Beyond 2**40 the cap holds anyway, and floats would overflow.
    return min(options.restart_delay_base * 2.0 ** min(max(restart, 1) - 1, 40), options.restart_delay_cap)


def restart_wait(pod: Pod, restart: int, now: datetime, options: PlanOptions) -> float:
    """Return the seconds left until a failed pod may be replaced, 0 if it is time; at most twice the delay.

    The time counts from the start of its program: the delay keeps programs that fail at once from being started over
    and over, and a program that ran for longer than the delay is replaced at once. A pod that never ran (evicted,
    refused by the kubelet) has no such time; its own start or creation stands in.

    The start is by the node's clock, if the program started: container runtimes report 1970 for a program that could
    not be started. A program always starts after its pod was created, by the API server's clock. So the creation is the
    earliest accepted start, and it is used where the node's clock is ahead by more than the delay.
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
    """Return the seconds since a terminating pod on a lost node may be deleted by force (negative: not yet).

    None for every other pod, and after the forced deletion was requested (finalizers may still hold the pod).
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
    """Return whether the kubelet refused to run the pod: there was no room on the node, or it does not fit there."""
    if not status.reason or any_begun(status):
        return False
    return status.message.startswith(_REFUSAL_PREFIX) or status.reason in _REFUSAL_REASONS


def _decisive_termination(pod: Pod) -> tuple[str, ContainerStateTerminated | None]:
    """Return the container that failed the pod (empty for `tensorflow`), and its end; None if none failed."""
    # A stable sort: `tensorflow` first, the others in their order.
    containers = sorted(pod.status.container_statuses, key=lambda c: c.name != DEFAULT_CONTAINER_NAME)
    for container in (*containers, *pod.status.init_container_statuses):
        terminated = container.state.terminated if container.state else None
        if terminated is not None and terminated.exit_code != 0:
            return "" if container.name == DEFAULT_CONTAINER_NAME else container.name, terminated
    return "", None


def finished_at(pod: Pod) -> datetime | None:
    """Return when the container `tensorflow` ended, else the last of the others, by the node's clock, or None."""
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
    """Return when the container that failed began, by the node's clock; None if none reports it."""
    terminated = _decisive_termination(pod)[1]
    return None if terminated is None else terminated.started_at
