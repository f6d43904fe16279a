"""The state of a replica, from its pod. Only the container `tensorflow` counts, even if other containers still run.

A plain sidecar (a proxy, a log shipper) never ends by itself, so the phase of its pod stays Running after the program
has ended. And if a sidecar fails, the phase of the pod becomes Failed, even if the program has succeeded.
"""

from __future__ import annotations

import signal

from tfoperator.api.replicas.names import (
    ANNOTATION_RESTART_MODE,
    ANNOTATION_STOPPED,
    DEFAULT_CONTAINER_NAME,
    STOPPED_WITH_REPLICA,
)
from tfoperator.api.v1.choices import RestartMode
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStateTerminated

STOP_DEADLINE = 1
"""The `spec.activeDeadlineSeconds` of a pod that the operator stops, in seconds: the minimum that API
servers accept.
"""

ENDED_PHASES = ("Succeeded", "Failed")

FIRST_RETRYABLE_EXIT_CODE = 128
"""Under the policy ExitCode, this exit code and higher codes mean a signal or a fault of the platform (the Go
operator's rule).
"""


_MAX_SIGNALS = 32
"""Exit codes between 128 and 128 plus this number count as signals: programs don't use them for anything else."""


def signal_of(exit_code: int) -> str:
    """Return the name of the signal that ended a process with this exit code, such as SIGKILL for 137.

    The result is empty if there was no signal.
    """
    number = exit_code - FIRST_RETRYABLE_EXIT_CODE
    if not 0 < number < _MAX_SIGNALS:
        return ""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def training_end(pod: Pod) -> ContainerStateTerminated | None:
    """Return how the container `tensorflow` has ended.

    Return None if the container runs or waits, or if the kubelet has not reported its state.
    """
    for container in pod.status.container_statuses:
        if container.name == DEFAULT_CONTAINER_NAME:
            return None if container.state is None else container.state.terminated
    return None


def is_ending(pod: Pod) -> bool:
    """Return whether the pod is deleted or stopped: its kubelet then ends all containers, or has ended them already.

    The operator stops a pod, without deleting it, by an `activeDeadlineSeconds` of 1.
    """
    deadline = pod.spec.active_deadline_seconds
    return pod.metadata.deletion_timestamp is not None or (deadline is not None and deadline <= STOP_DEADLINE)


def stopped_with_replica(pod: Pod) -> bool:
    """Return whether the operator stopped the pod's other containers after `tensorflow` had ended."""
    return pod.metadata.annotations.get(ANNOTATION_STOPPED) == STOPPED_WITH_REPLICA


def restarted_by_rule(pod: Pod, exit_code: int) -> bool:
    """Return whether, after this exit code, the kubelet starts `tensorflow` again in the same pod.

    The kubelet does so by the container's `restartPolicyRules`, if the operator wrote them (restart mode InPlace).
    """
    in_place = pod.metadata.annotations.get(ANNOTATION_RESTART_MODE) == RestartMode.IN_PLACE
    return in_place and exit_code >= FIRST_RETRYABLE_EXIT_CODE


def replica_phase(pod: Pod) -> str:
    """Return the pod's phase as it would be if the container `tensorflow` were its only container.

    If other containers still run, the phase is Succeeded or Failed after `tensorflow` has ended, unless the pod's
    restart policy restarts `tensorflow`. If the pod has failed only because another container failed, and `tensorflow`
    has succeeded, the phase is Succeeded. The phase stays Failed if Kubernetes ended the pod (`status.reason` is set)
    and the operator had not stopped it, because a program may end with code 0 after SIGTERM.
    """
    phase = pod.status.phase
    if phase not in ("Running", "Failed") or len(pod.status.container_statuses) < 2:
        return phase
    end = training_end(pod)
    if end is None:
        return phase
    if phase == "Failed":
        return "Succeeded" if end.exit_code == 0 and (stopped_with_replica(pod) or not pod.status.reason) else phase
    policy = pod.spec.restart_policy
    if restarted_by_rule(pod, end.exit_code):
        return phase
    if policy == "Never" or (policy == "OnFailure" and end.exit_code == 0):
        return "Failed" if end.exit_code else "Succeeded"
    return phase


def outlives_training(pod: Pod) -> bool:
    """Return whether other containers of the pod run on although its replica has ended."""
    return pod.status.phase == "Running" and replica_phase(pod) != "Running"
