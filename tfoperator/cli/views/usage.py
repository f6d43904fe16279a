"""What replicas use, in the cells of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfoperator.sdk import PodUsage

if TYPE_CHECKING:
    from tfoperator.local.usage import Usage

_UNITS = ("Ki", "Mi", "Gi", "Ti")
USAGE_HEADER = ("CPU", "MEMORY")
GPU_HEADER = ("GPU", "GPU MEMORY")


def usage_by_pod(usage: Usage) -> dict[str, PodUsage]:
    """What was measured on this machine, by the uid of the pod."""
    found: dict[str, PodUsage] = {}
    for one in usage.containers:
        gpu = one.gpu
        used = PodUsage(one.cpu, one.memory, *((None, None) if gpu is None else (gpu.busy, gpu.memory)))
        found[one.pod_uid] = found.get(one.pod_uid, PodUsage()) + used
    return found


def usage_header(usages: Iterable[PodUsage]) -> tuple[str, ...]:
    """The columns that there is something to say in: none where nothing was measured."""
    known = list(usages)
    if not known:
        return ()
    return USAGE_HEADER + (GPU_HEADER if any(one.gpu is not None for one in known) else ())


def usage_cells(usage: PodUsage | None, header: tuple[str, ...]) -> tuple[str, ...]:
    """The cells under that header; `-` for what is not known."""
    if usage is None:
        return ("-",) * len(header)
    gpu = "-" if usage.gpu is None else cpu_text(usage.gpu)
    gpu_memory = "-" if usage.gpu_memory is None else memory_text(usage.gpu_memory)
    return (cpu_text(usage.cpu), memory_text(usage.memory), gpu, gpu_memory)[: len(header)]


def cpu_text(cpus: float) -> str:
    """`0.37`, `12.5`: CPUs, or devices, that are busy on average."""
    return f"{cpus:.2f}" if cpus < 10 else f"{cpus:.1f}"


def memory_text(size: int) -> str:
    """`172Mi`, `1.2Gi`: bytes, to three digits."""
    number, unit = size / 1024, _UNITS[0]
    for larger in _UNITS[1:]:
        if number < 1000:
            break
        number, unit = number / 1024, larger
    return f"{number:.1f}{unit}" if number < 10 and unit != "Ki" else f"{number:.0f}{unit}"
