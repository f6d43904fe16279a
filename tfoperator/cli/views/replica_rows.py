"""A pod as text: its row in the table of replicas, and the columns for the usage of pods. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from tfoperator.api.replicas.names import ANNOTATION_STOPPED, DEFAULT_CONTAINER_NAME, replica_name
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStatus
from tfoperator.sdk import PodUsage
from tfoperator.sdk.states import replica_state, waiting_state, was_stopped

if TYPE_CHECKING:
    from tfoperator.local.usage import Usage


class ReplicaRow(msgspec.Struct, frozen=True):
    """A row of the table of replicas."""

    name: str
    state: str
    ready: bool
    restarts: int
    detail: str = ""


def replica_row(pod: Pod) -> ReplicaRow:
    """Return the row of a pod. Its `detail` is the reason for the pod's state, for example `exit code 1`."""
    statuses, state = pod.status.container_statuses, replica_state(pod)
    if state in ("Stopped", "Stopping"):
        detail = pod.metadata.annotations[ANNOTATION_STOPPED] if was_stopped(pod) else ""
    else:
        detail = _detail(pod)
    return ReplicaRow(
        name=replica_name(pod),
        state=state,
        ready=bool(statuses) and all(status.ready for status in statuses),
        restarts=sum(status.restart_count for status in statuses if status.name == DEFAULT_CONTAINER_NAME),
        detail=detail,
    )


def _detail(pod: Pod) -> str:
    if waiting := waiting_state(pod):
        return waiting.message
    detail = ""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        now, last = status.state, status.last_state
        if now is not None and now.terminated is not None and now.terminated.exit_code != 0:
            detail = _of_container(status, f"exit code {now.terminated.exit_code}")
        elif not detail and last is not None and last.terminated is not None:
            detail = _of_container(status, f"last exit code {last.terminated.exit_code}")
    return detail


def _of_container(status: ContainerStatus, what: str) -> str:
    return what if status.name == DEFAULT_CONTAINER_NAME else f"{status.name}: {what}"


_UNITS = ("Ki", "Mi", "Gi", "Ti")
_USAGE_HEADER = ("CPU", "MEMORY")
_GPU_HEADER = ("GPU", "GPU MEMORY")


def usage_by_pod(usage: Usage) -> dict[str, PodUsage]:
    """Return the measured usage of the pods on this machine, by the pod's UID."""
    by_pod: dict[str, PodUsage] = {}
    for container in usage.containers:
        gpu = container.gpu
        used = PodUsage(container.cpu, container.memory, *((None, None) if gpu is None else (gpu.busy, gpu.memory)))
        by_pod[container.pod_uid] = by_pod.get(container.pod_uid, PodUsage()) + used
    return by_pod


def usage_header(usages: Iterable[PodUsage]) -> tuple[str, ...]:
    """Return the titles of the usage columns.

    Without measurements, return no titles. Without measured GPUs, leave out the GPU columns.
    """
    measured = list(usages)
    if not measured:
        return ()
    return _USAGE_HEADER + (_GPU_HEADER if any(usage.gpu is not None for usage in measured) else ())


def usage_cells(usage: PodUsage | None, header: tuple[str, ...]) -> tuple[str, ...]:
    """Return the cells of a pod for the columns of `header`. An unknown value is `-`."""
    if usage is None:
        return ("-",) * len(header)
    gpu = "-" if usage.gpu is None else cpu_text(usage.gpu)
    gpu_memory = "-" if usage.gpu_memory is None else memory_text(usage.gpu_memory)
    return (cpu_text(usage.cpu), memory_text(usage.memory), gpu, gpu_memory)[: len(header)]


def cpu_text(cpus: float) -> str:
    """Return a number of CPUs, or the average number of busy GPUs, for example `0.37` or `12.5`."""
    return f"{cpus:.2f}" if cpus < 10 else f"{cpus:.1f}"


def memory_text(size: int) -> str:
    """Return a number of bytes as text with at most three digits, such as `172Mi` or `1.2Gi`."""
    number, unit = size / 1024, _UNITS[0]
    for larger in _UNITS[1:]:
        if number < 1000:
            break
        number, unit = number / 1024, larger
    return f"{number:.1f}{unit}" if number < 10 and unit != "Ki" else f"{number:.0f}{unit}"
