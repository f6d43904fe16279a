"""The conditions of a pod, as a kubelet sets them (Kubernetes 1.37, pkg/kubelet/status/generate.go). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfoperator.kube.views.pod_status import ContainerStateRunning, ContainerStateWaiting
from tfoperator.local.node.container_record import ContainerRecord

_COMPLETED = "PodCompleted"


class KubeletCondition(NamedTuple):
    """One condition, without the time at which its value changed."""

    kind: str
    value: bool
    reason: str = ""
    message: str = ""


def pod_conditions(
    phase: str, init: Sequence[ContainerRecord], main: Sequence[ContainerRecord], *, has_address: bool
) -> Iterator[KubeletCondition]:
    """Yield the conditions in the kubelet's order.

    `has_address` is whether the pod has an IP address. If it has an address, `PodReadyToStartContainers` is True until
    the pod has ended.
    """
    yield _sandbox(has_address=has_address, over=phase in ("Succeeded", "Failed"))
    yield _initialized(phase, init, main)
    ready = _ready(phase, [*(record for record in init if record.sidecar), *main])
    yield ready._replace(kind="Ready")
    yield ready
    yield KubeletCondition("PodScheduled", True)


def _sandbox(*, has_address: bool, over: bool) -> KubeletCondition:
    if has_address and not over:
        return KubeletCondition("PodReadyToStartContainers", True)
    message = "pod sandbox is not ready" if has_address else "pod sandbox has no IP address"
    return KubeletCondition("PodReadyToStartContainers", False, "PodSandboxNotReady", message)


def _initialized(phase: str, init: Sequence[ContainerRecord], main: Sequence[ContainerRecord]) -> KubeletCondition:
    if phase == "Succeeded":
        return KubeletCondition("Initialized", True, _COMPLETED)
    incomplete = [record for record in init if not record.initialised]
    if not incomplete or any(not isinstance(record.state, ContainerStateWaiting) for record in main):
        return KubeletCondition("Initialized", True)
    return KubeletCondition("Initialized", False, "ContainersNotInitialized", _listed("incomplete", incomplete))


def _ready(phase: str, serving: Sequence[ContainerRecord]) -> KubeletCondition:
    if phase in ("Succeeded", "Failed"):
        return KubeletCondition("ContainersReady", False, _COMPLETED if phase == "Succeeded" else "PodFailed")
    unready = [record for record in serving if not isinstance(record.state, ContainerStateRunning)]
    if unready:
        return KubeletCondition("ContainersReady", False, "ContainersNotReady", _listed("unready", unready))
    return KubeletCondition("ContainersReady", True)


def _listed(lack: str, records: Sequence[ContainerRecord]) -> str:
    return f"containers with {lack} status: [{' '.join(record.container.name for record in records)}]"
