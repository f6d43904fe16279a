"""The life of a pod in a simulated cluster: each function returns the pod after a scheduler or a kubelet has acted.

The functions are pure. `hack.kubelet` has the same as JSON, for API servers.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from tfoperator.kube.views.objects import HasMetadata, Pod
from tfoperator.kube.views.pod_status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    PodCondition,
)

T = TypeVar("T", bound=HasMetadata)

GRACE = 30
"""Seconds that programs have to end by default."""


def with_status(pod: Pod, **changes: Any) -> Pod:
    """Return the pod with these changes of its status."""
    return replace(pod, status=replace(pod.status, **changes))


def bound(pod: Pod, node: str = "node-1", **spec: Any) -> Pod:
    """Return the pod on a node; `spec` are other changes of its spec."""
    return replace(pod, spec=replace(pod.spec, node_name=node, **spec))


def unschedulable(pod: Pod, nodes: int = 1) -> Pod:
    """Return the pod after a scheduler has found no room for it on so many nodes."""
    message = f"0/{nodes} nodes are available: {nodes} Insufficient cpu."
    return with_status(pod, conditions=(PodCondition("PodScheduled", "False", "Unschedulable", message),))


def started(pod: Pod, at: datetime, *others: ContainerStatus) -> Pod:
    """Return the pod after its training container, and the `others`, have started."""
    since = pod.status.start_time or at
    return with_status(pod, phase="Running", start_time=since, container_statuses=(_runs(at), *others))


def restarted(pod: Pod, at: datetime, end: ContainerState | None) -> Pod:
    """Return the pod after its kubelet has started the training container again, after this end."""
    old, *others = pod.status.container_statuses
    return with_status(pod, container_statuses=(_runs(at, old.restart_count + 1, end), *others))


def ended(pod: Pod, code: int, at: datetime, *, runs_on: bool = False) -> Pod:
    """Return the pod after its training container has ended for good; it `runs_on` if another container does."""
    old, *others = pod.status.container_statuses
    phase = "Running" if runs_on else "Failed" if code else "Succeeded"
    now = replace(old, ready=False, state=end_state(pod, code, at))
    return with_status(pod, phase=phase, container_statuses=(now, *others))


def end_state(pod: Pod, code: int, at: datetime) -> ContainerState:
    """Return the state of the pod's training container after it has ended with this code."""
    state = pod.status.container_statuses[0].state
    began = None if state is None or state.running is None else state.running.started_at
    return ContainerState(terminated=ContainerStateTerminated(code, "Error" if code else "Completed", "", at, began))


def terminating(obj: T, due: datetime, grace: int = GRACE) -> T:
    """Return the object after its deletion was requested, `grace` seconds before it is due."""
    return replace(obj, metadata=replace(obj.metadata, deletion_timestamp=due, deletion_grace_period_seconds=grace))


def _runs(at: datetime, restarts: int = 0, last: ContainerState | None = None) -> ContainerStatus:
    return ContainerStatus("tensorflow", True, restarts, ContainerState(running=ContainerStateRunning(at)), last)
