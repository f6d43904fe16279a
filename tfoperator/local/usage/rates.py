"""The machine as a node, and from two readings to what is used per second. Pure but for reading the machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime

import msgspec
import psutil

from tfoperator.local.gpus import GpuUse
from tfoperator.local.runtime import ContainerName, Measurement

_IDLE = ("idle", "iowait")
"""The times of the CPUs in which they did nothing."""
_COUNTED_ELSEWHERE = ("guest", "guest_nice")
"""Linux counts these in `user` and `nice`, too: proc_stat(5)."""


class Machine(msgspec.Struct, frozen=True):
    """What there is: CPUs that this process may use, and bytes of memory."""

    cpus: int
    memory: int

    @classmethod
    def this(cls) -> Machine:
        """The machine that this process runs on."""
        return cls(usable_cpus(), psutil.virtual_memory().total)


class MachineUse(msgspec.Struct, frozen=True):
    """CPU time in seconds since some beginning, of all CPUs; bytes of memory that nobody else could have now."""

    cpu_seconds: float
    memory: int


def usable_cpus() -> int:
    """How many CPUs processes started from here can run on: a cpuset or `taskset` may leave fewer than there are."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_machine() -> MachineUse:
    """What is used now."""
    times = psutil.cpu_times()._asdict()
    busy = sum(seconds for name, seconds in times.items() if name not in _IDLE + _COUNTED_ELSEWHERE)
    memory = psutil.virtual_memory()
    return MachineUse(busy, memory.total - memory.available)


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
