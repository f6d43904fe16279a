"""Recognizes pods on lost nodes: the kubelet no longer reports, so it neither ends such a pod nor reports its end."""

from __future__ import annotations

from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import PodStatus

GC_REASON = "DeletionByPodGC"
TAINT_REASON = "DeletionByTaintManager"
_GATE_REASON = "ReadinessGatesNotReady"


def node_is_lost(pod: Pod) -> bool:
    """Return whether the cluster reports the pod's node as gone: then a kubelet will not finish the pod's deletion.

    If a pod was deleted because of a taint, this alone does not show that the node is gone, since a live node may have
    any taint. In addition, the node controller must have marked the pod as not ready, or the pod must have no running
    container.
    """
    status = pod.status
    if status.phase == "Unknown" or status.reason == "NodeLost":
        return True
    disruptions = {c.reason for c in status.conditions if c.type == "DisruptionTarget" and c.status == "True"}
    return GC_REASON in disruptions or (TAINT_REASON in disruptions and (node_is_silent(status) or not _runs(status)))


def node_is_silent(status: PodStatus) -> bool:
    """Return whether the pod is marked as not ready, although its kubelet last reported all containers as ready.

    A kubelet itself marks a pod in this way only if a readiness gate of the pod is not met. In all other cases the node
    controller has marked the pod, because the kubelet no longer reports.
    """
    marked = any(c.type == "Ready" and c.status == "False" and c.reason != _GATE_REASON for c in status.conditions)
    return marked and all(container.ready for container in status.container_statuses)


def _runs(status: PodStatus) -> bool:
    """Return whether a container runs, by its kubelet's last report; a container without a state counts as running."""
    states = (container.state for container in (*status.init_container_statuses, *status.container_statuses))
    return any(state is None or (state.waiting is None and state.terminated is None) for state in states)
