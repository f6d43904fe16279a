"""The state of a replica, from its pod: the container `tensorflow` decides, whatever other containers run.

A plain sidecar (a proxy, a log shipper) never ends by itself, so the phase of its pod stays Running after the program
has ended. And if a sidecar fails, it turns the phase of a pod whose program has succeeded into Failed.
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
from tfoperator.kube.views.objects import ContainerStateTerminated, Pod

STOP_DEADLINE = 1
"""Seconds, the `spec.activeDeadlineSeconds` of a pod that is stopped: the least that API servers accept."""

ENDED_PHASES = ("Succeeded", "Failed")

FIRST_RETRYABLE_EXIT_CODE = 128
"""Exit codes from here on mean a signal or a platform fault under the policy ExitCode (the Go operator's rule)."""


_MAX_SIGNALS = 32
"""Exit codes between 128 and 128 plus this number count as signals: programs don't use them for anything else."""


def signal_of(exit_code: int) -> str:
    """Return the name of the signal that ended a process with this exit code, such as SIGKILL; empty for none."""
    number = exit_code - FIRST_RETRYABLE_EXIT_CODE
    if not 0 < number < _MAX_SIGNALS:
        return ""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def training_end(pod: Pod) -> ContainerStateTerminated | None:
    """Return how the container `tensorflow` has ended; None if it runs, waits, or no kubelet has reported it."""
    for container in pod.status.container_statuses:
        if container.name == DEFAULT_CONTAINER_NAME:
            return None if container.state is None else container.state.terminated
    return None


def is_ending(pod: Pod) -> bool:
    """Return whether the pod is deleted or stopped, so that its kubelet ends all that runs in it, if it has not yet."""
    deadline = pod.spec.active_deadline_seconds
    return pod.metadata.deletion_timestamp is not None or (deadline is not None and deadline <= STOP_DEADLINE)


def stopped_with_replica(pod: Pod) -> bool:
    """Return whether the operator stopped the rest of the pod after `tensorflow` had ended."""
    return pod.metadata.annotations.get(ANNOTATION_STOPPED) == STOPPED_WITH_REPLICA


def restarted_by_rule(pod: Pod, exit_code: int) -> bool:
    """Return whether, after this exit code, the kubelet starts `tensorflow` again by a rule that the operator set."""
    in_place = pod.metadata.annotations.get(ANNOTATION_RESTART_MODE) == RestartMode.IN_PLACE
    return in_place and exit_code >= FIRST_RETRYABLE_EXIT_CODE


def replica_phase(pod: Pod) -> str:
    """Return the pod's phase as it would be if the container `tensorflow` were its only container.

    While other containers run, it is Succeeded or Failed once `tensorflow` has ended and the pod's restart policy does
    not start it again. For a failed pod it is Succeeded if `tensorflow` had succeeded and another container failed. If
    Kubernetes ended the pod (`status.reason` is set), and the operator had not stopped it, it stays Failed, because a
    program may answer SIGTERM with 0.
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
