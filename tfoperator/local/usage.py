"""The containers' use of the machine: rates between two measurements.

A thread measures when a reader requests the usage. Without a reader or subscriber, the thread measures only every ten
seconds, to find the memory peaks (`Runtime.peaks`). Rates are computed from the last measurement and a new measurement.
For a container that has started in between, the CPU time at the last measurement is 0. So a reader never has to wait
for a second measurement.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec
import psutil

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.local.gpus.manager import GpuUse
from tfoperator.local.runtime.measurements import ContainerName, Measurement
from tfoperator.local.runtime.protocol import Runtime

logger = logging.getLogger(__name__)

PEAKS_EVERY = 10.0
"""Seconds between two measurements without a reader. The meter may miss a peak that is shorter than this."""
FRESH = 1.0
"""Seconds for which a measurement serves all readers. With measurements in shorter intervals, the rates would be too
inexact.
"""
_READ_TIMEOUT = 5.0
_STOP_TIMEOUT = 5.0

_IDLE_TIMES = ("idle", "iowait")
"""The names of the CPU times in which the CPUs were idle."""
_DOUBLE_COUNTED_TIMES = ("guest", "guest_nice")
"""The CPU times that Linux also counts in `user` and `nice`: proc_stat(5)."""


class Machine(msgspec.Struct, frozen=True):
    """The resources of a machine: the number of CPUs that this process may use, and bytes of memory."""

    cpus: int
    memory: int

    @classmethod
    def this(cls) -> Machine:
        """Return the machine that this process runs on."""
        return cls(usable_cpus(), psutil.virtual_memory().total)


class MachineUse(msgspec.Struct, frozen=True):
    """The use of the whole machine.

    `cpu_seconds` is the CPU time of all CPUs in seconds, since an arbitrary start. `memory` is the memory in bytes that
    is not available to programs.
    """

    cpu_seconds: float
    memory: int


def usable_cpus() -> int:
    """Return the number of CPUs that this process and its child processes may use.

    A cpuset or `taskset` may allow fewer CPUs than the machine has.
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_machine() -> MachineUse:
    """Return the machine's current use."""
    times = psutil.cpu_times()._asdict()
    busy = sum(seconds for name, seconds in times.items() if name not in _IDLE_TIMES + _DOUBLE_COUNTED_TIMES)
    memory = psutil.virtual_memory()
    return MachineUse(busy, memory.total - memory.available)


class Reading(msgspec.Struct, frozen=True):
    """All measurements that were made at the same moment.

    `monotonic` is the time in seconds, from which the time between two readings is computed.
    """

    taken: datetime
    monotonic: float
    machine: MachineUse
    containers: tuple[Measurement, ...] = ()
    gpus: Mapping[ContainerName, GpuUse] = {}


class ContainerUsage(msgspec.Struct, frozen=True):
    """The usage of a container.

    The window is the time between two measurements. `cpu` is the average number of CPUs in the window, for example 1.5.
    `memory` is the memory in bytes at the end of the window. `gpu` is None if the container has no GPUs.
    """

    name: ContainerName
    pod_uid: str
    cpu: float
    memory: int
    gpu: GpuUse | None = None


class Usage(msgspec.Struct, frozen=True):
    """The usage of all containers and of the whole machine.

    The window is the time between two measurements: it has `window` seconds and ends at `taken`. `machine_cpu` is the
    average number of busy CPUs in the window. `machine_memory` is the memory in use at the end of the window, in bytes.
    """

    taken: datetime
    window: float
    machine_cpu: float
    machine_memory: int
    containers: tuple[ContainerUsage, ...] = ()


def usage_between(before: Reading, now: Reading) -> Usage:
    """Return the usage between two readings.

    If a container started or restarted between the readings, its CPU time began at 0. The measured CPU time of a
    container decreases if a process outside the container adopts some of its processes. Such a decrease counts as 0.
    """
    window = max(now.monotonic - before.monotonic, 1e-3)
    cpu_before = {(container.name, container.attempt): container.cpu_seconds for container in before.containers}
    containers = tuple(
        ContainerUsage(
            container.name,
            container.pod_uid,
            max(0.0, container.cpu_seconds - cpu_before.get((container.name, container.attempt), 0.0)) / window,
            container.memory,
            now.gpus.get(container.name),
        )
        for container in now.containers
    )
    spent = max(0.0, now.machine.cpu_seconds - before.machine.cpu_seconds)
    return Usage(now.taken, window, spent / window, now.machine.memory, containers)


Listener = Callable[[Usage], None]


class UsageMeter:
    """Measures the usage of the containers and of the machine in a thread.

    Thread-safe. Call `start()` and `stop()` once each, while the runtime is running. `gpus` reports the utilisation of
    containers' GPUs. `machine` reads the use of the whole machine.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        gpus: Callable[[], Mapping[ContainerName, GpuUse]] | None = None,
        machine: Callable[[], MachineUse] = read_machine,
        clock: Clock | None = None,
    ) -> None:
        self._runtime = runtime
        self._gpus = gpus
        self._machine = machine
        self._clock = clock or SystemClock()
        self._wake = threading.Condition()  # guards all fields below but the thread
        self._wanted = False
        self._stopping = False
        self._usage: Usage | None = None
        self._reading: Reading | None = None
        self._listeners: list[tuple[Listener, float]] = []
        self._thread = threading.Thread(target=self._run, name="usage-meter", daemon=True)

    def start(self) -> None:
        """Start the thread that measures."""
        self._reading = self._read_now(containers=False)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. After that, readers get the last known usage. Idempotent."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_STOP_TIMEOUT)

    def read(self) -> Usage | None:
        """Return the usage, measured at most `FRESH` seconds ago.

        If there is no such measurement, the call blocks until the thread has measured, for some seconds at most. If the
        measurement takes longer, the call returns the previous usage. It returns None if there was no measurement.
        """
        with self._wake:
            end = self._clock.monotonic() + _READ_TIMEOUT
            while not self._fresh() and not self._stopping:
                self._wanted = True
                self._wake.notify_all()
                if not self._clock.wait_until(self._wake, end):
                    break
            return self._usage

    def subscribe(self, listener: Listener, every: float) -> None:
        """Call `listener` with the usage at least every `every` seconds, until the meter stops.

        The meter's thread makes the calls.
        """
        with self._wake:
            self._listeners.append((listener, every))
            self._wake.notify_all()

    def _fresh(self) -> bool:
        if self._usage is None or self._reading is None:
            return False
        return self._clock.monotonic() - self._reading.monotonic < FRESH

    def _run(self) -> None:
        while self._await_turn():
            try:
                reading = self._read_now()
            except Exception:
                logger.exception("the use of the machine can't be measured")
                with self._wake:
                    self._wanted = False
                    if self._reading is not None:  # retry after the interval, not at once
                        self._reading = msgspec.structs.replace(self._reading, monotonic=self._clock.monotonic())
                continue
            with self._wake:
                assert self._reading is not None
                usage = self._usage = usage_between(self._reading, reading)
                self._reading, self._wanted = reading, False
                listeners = [listener for listener, _ in self._listeners]
                self._wake.notify_all()
            for listener in listeners:
                listener(usage)

    def _await_turn(self) -> bool:
        """Wait until the next measurement is due. Return False if the meter must stop."""
        with self._wake:
            while not self._stopping:
                assert self._reading is not None
                every = min((PEAKS_EVERY, *(every for _, every in self._listeners)))
                due = self._reading.monotonic + (0.0 if self._wanted else every)
                if self._clock.monotonic() >= due:
                    return True
                self._clock.wait_until(self._wake, due)
            return False

    def _read_now(self, *, containers: bool = True) -> Reading:
        measured = tuple(self._runtime.measure()) if containers else ()
        for container in measured:
            self._runtime.peaks.note(container.name, container.memory)
        gpus = self._gpus() if self._gpus is not None and measured else {}
        return Reading(self._clock.now(), self._clock.monotonic(), self._machine(), measured, gpus)
