"""Names the disruption that took a pod from its job, as far as the pod shows it.

A disruption is an end that somebody else caused: a user, the scheduler, a node. It is no failure of the program, so no
limit on failures counts it. Kubernetes marks most of them by the pod's condition `DisruptionTarget`.
"""

from __future__ import annotations

from tfoperator.api.pods.lost_nodes import GC_REASON, TAINT_REASON, node_is_lost
from tfoperator.controller.plan.pod_ends.restart import Ending, was_refused
from tfoperator.kube.views.objects import Pod

DELETED = "deleted by a user or a program"
_BY_KUBELET = "TerminationByKubelet"
"""Kubernetes' reason where the kubelet ends a pod: its node shuts down, or lacks memory or disk."""
PREEMPTED = "PreemptionByScheduler"
"""Kubernetes' reason where the scheduler takes a pod away for another of a higher priority."""

_ADMISSION_REASONS = frozenset({"NodeAffinity", "UnexpectedAdmissionError"})
_SHUTDOWN_REASONS = frozenset({"NodeShutdown", "Shutdown", "Terminated"})
_LOST_REASONS = frozenset({"NodeLost"})
_PREEMPTION_REASONS = frozenset({"Preempted", "Preempting"})


def deletion_of(pod: Pod) -> str:
    """Return the disruption that deletes a pod which terminates, and which the operator has not deleted itself."""
    return _by_condition(pod) or DELETED


def disruption_of(pod: Pod, ending: Ending) -> str:
    """Return the disruption that ended a pod; its `ending` must be a disruption."""
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
    """Return the disruption by which its kubelet ended a pod whose program then exited with 0; empty if it did not.

    Such a pod has the phase Succeeded, but a program that exits with 0 on SIGTERM has not finished. The time of the
    condition is no evidence for either order: since Kubernetes 1.37 a kubelet updates it after all containers have
    ended. In doubt the kubelet is the cause, as a deletion is (`restart.ended_by_deletion`).
    """
    ended = any(
        (c.type, c.status, c.reason) == ("DisruptionTarget", "True", _BY_KUBELET) for c in pod.status.conditions
    )
    return _by_condition(pod) if ended else ""


def crash_of(pod: Pod, reason: str) -> str:
    """Return the disruption that ended a container whose end was not observed; `reason` is the kubelet's."""
    return f"{_node(pod)} has crashed: {reason}"


def _by_condition(pod: Pod) -> str:
    """Return the disruption by the pod's condition DisruptionTarget; empty if it has none."""
    found = next((c for c in pod.status.conditions if (c.type, c.status) == ("DisruptionTarget", "True")), None)
    if found is None:
        return ""
    node = _node(pod)
    if found.reason == PREEMPTED:
        return f"preempted by the scheduler: {PREEMPTED}"
    if found.reason == "EvictionByEvictionAPI":
        return f"evicted from {node} through the API, as a drain does: {found.reason}"
    if found.reason == GC_REASON:
        return f"{node} is gone: {found.reason}"
    if found.reason == TAINT_REASON:
        lost = f"{node} is lost" if node_is_lost(pod) else f"evicted because of a taint of {node}"
        return f"{lost}: {found.reason}"
    if found.reason == _BY_KUBELET:
        return f"ended by the kubelet of {node}: {found.reason}"
    return f"disrupted{_with(found.reason)}"


def _node(pod: Pod) -> str:
    return f"node {pod.spec.node_name}" if pod.spec.node_name else "its node"


def _with(reason: str) -> str:
    return f": {reason}" if reason else ""
