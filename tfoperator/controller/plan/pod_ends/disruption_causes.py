"""Describes the disruption that ended a pod, if the pod shows the disruption.

A disruption is an end that somebody else caused: a user, the scheduler, a node. It is not a failure of the program, so
it does not count for any limit on failures. Kubernetes marks most disruptions with the pod's condition
`DisruptionTarget`.
"""

from __future__ import annotations

from tfoperator.api.pods.lost_nodes import GC_REASON, TAINT_REASON, node_is_lost
from tfoperator.controller.plan.pod_ends.restart import Ending, was_refused
from tfoperator.kube.views.objects import Pod

DELETED = "deleted by a user or a program"
_BY_KUBELET = "TerminationByKubelet"
"""The reason that Kubernetes writes if the kubelet ends a pod because its node shuts down, or lacks memory or disk
space.
"""
PREEMPTED = "PreemptionByScheduler"
"""The reason that Kubernetes writes if the scheduler removes a pod to make room for a pod with a higher priority."""

_ADMISSION_REASONS = frozenset({"NodeAffinity", "UnexpectedAdmissionError"})
_SHUTDOWN_REASONS = frozenset({"NodeShutdown", "Shutdown", "Terminated"})
_LOST_REASONS = frozenset({"NodeLost"})
_PREEMPTION_REASONS = frozenset({"Preempted", "Preempting"})


def deletion_of(pod: Pod) -> str:
    """Return a text about the disruption that deletes a terminating pod; the operator itself did not delete the pod."""
    return _by_condition(pod) or DELETED


def disruption_of(pod: Pod, ending: Ending) -> str:
    """Return a text about the disruption that ended a pod; the caller has checked that `ending` is a disruption."""
    node, reason = _node(pod), pod.status.reason
    if pod.status.phase == "Unknown" or reason in _LOST_REASONS:
        return f"{node} is lost{_with(reason)}"
    if reason in _SHUTDOWN_REASONS:
        return f"{node} was shut down: {reason}"
    if reason in _PREEMPTION_REASONS:
        return f"preempted by the kubelet of {node}: {reason}"
    if reason == "Evicted":
        return f"evicted by the kubelet of {node}: {reason}"
    if reason in _ADMISSION_REASONS or reason.startswith("OutOf") or was_refused(pod.status):
        return f"refused by the kubelet of {node}: {reason}"
    # Any other end that is a disruption was not observed, since the node crashed.
    return _by_condition(pod) or crash_of(pod, ending.reason)


def kubelet_ended(pod: Pod) -> str:
    """Return a text about the disruption if a kubelet ended a pod whose program then exited with 0; otherwise "".

    Such a pod has the phase Succeeded, but a program that exits with 0 on SIGTERM has not finished. The time of the
    condition DisruptionTarget does not show whether the program ended before the SIGTERM: since Kubernetes 1.37, a
    kubelet updates the condition after all containers have ended. If the order is uncertain, the kubelet counts as the
    cause, as a deletion does (`restart.ended_by_deletion`).
    """
    ended = any(
        (c.type, c.status, c.reason) == ("DisruptionTarget", "True", _BY_KUBELET) for c in pod.status.conditions
    )
    return _by_condition(pod) if ended else ""


def crash_of(pod: Pod, reason: str) -> str:
    """Return a text about a crash of the pod's node; `reason` is the kubelet's reason for the end of the container."""
    return f"{_node(pod)} has crashed: {reason}"


def _by_condition(pod: Pod) -> str:
    """Return a text about the disruption that the pod's condition DisruptionTarget shows.

    The result is empty if the pod does not have this condition.
    """
    condition = next((c for c in pod.status.conditions if (c.type, c.status) == ("DisruptionTarget", "True")), None)
    if condition is None:
        return ""
    node = _node(pod)
    if condition.reason == PREEMPTED:
        return f"preempted by the scheduler: {PREEMPTED}"
    if condition.reason == "EvictionByEvictionAPI":
        return f"evicted from {node} through the API, as a drain does: {condition.reason}"
    if condition.reason == GC_REASON:
        return f"{node} is gone: {condition.reason}"
    if condition.reason == TAINT_REASON:
        lost = f"{node} is lost" if node_is_lost(pod) else f"evicted because of a taint of {node}"
        return f"{lost}: {condition.reason}"
    if condition.reason == _BY_KUBELET:
        return f"ended by the kubelet of {node}: {condition.reason}"
    return f"disrupted{_with(condition.reason)}"


def _node(pod: Pod) -> str:
    return f"node {pod.spec.node_name}" if pod.spec.node_name else "its node"


def _with(reason: str) -> str:
    return f": {reason}" if reason else ""
