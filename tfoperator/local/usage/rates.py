"""From two readings to what is used per second. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tfoperator.local.gpus import GpuUse
from tfoperator.local.runtime import ContainerName, Measurement
from tfoperator.local.usage.machine import MachineUse


class Reading(msgspec.Struct, frozen=True):
    """Everything that was measured at one moment; `monotonic` in seconds, for the distance between two readings."""

    taken: datetime
    monotonic: float
    machine: MachineUse
    containers: tuple[Measurement, ...] = ()
    gpus: Mapping[ContainerName, GpuUse] = {}


class ContainerUsage(msgspec.Struct, frozen=True):
    """What a container uses: CPUs on average over the window, bytes of memory at its end, its GPUs if it has any."""

    name: ContainerName
    pod_uid: str
    cpu: float
    memory: int
    gpu: GpuUse | None = None


class Usage(msgspec.Struct, frozen=True):
    """What all containers use, and the whole machine: over `window` seconds, which ended at `taken`."""

    taken: datetime
    window: float
    machine_cpu: float
    machine_memory: int
    containers: tuple[ContainerUsage, ...] = ()


def usage_between(before: Reading, now: Reading) -> Usage:
    """What was used from one reading to the next.

    A container that is new, or started again, began with no CPU time within this window. CPU time never goes back; a
    measurement may, when a process's children are adopted by another.
    """
    window = max(now.monotonic - before.monotonic, 1e-3)
    known = {(one.name, one.attempt): one.cpu_seconds for one in before.containers}
    containers = tuple(
        ContainerUsage(
            one.name,
            one.pod_uid,
            max(0.0, one.cpu_seconds - known.get((one.name, one.attempt), 0.0)) / window,
            one.memory,
            now.gpus.get(one.name),
        )
        for one in now.containers
    )
    spent = max(0.0, now.machine.cpu_seconds - before.machine.cpu_seconds)
    return Usage(now.taken, window, spent / window, now.machine.memory, containers)
