"""The machine as a node: its cores and memory, and what of them is used by whomever."""

from __future__ import annotations

import os

import msgspec
import psutil

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
