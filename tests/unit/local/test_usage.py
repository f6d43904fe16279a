import queue
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.threads import InThread
from tfoperator.local.gpus.manager import GpuUse
from tfoperator.local.runtime.measurements import ContainerName, Measurement, PeakMemory
from tfoperator.local.usage import FRESH, PEAKS_EVERY, MachineUse, Reading, Usage, UsageMeter, usage_between

NAME = ContainerName("ns", "p", "c")


class Bench:
    """A meter of a runtime that uses half a CPU, and a given amount of memory."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.peaks = PeakMemory()
        self.memory = 100
        self.measured = 0
        self.broken = False
        self.meter = UsageMeter(self, machine=lambda: MachineUse(0.0, 0), clock=self.clock)  # type: ignore[arg-type]

    def measure(self) -> Sequence[Measurement]:
        self.measured += 1
        if self.broken:
            raise RuntimeError("for once")
        return [Measurement(NAME, "1", "uid", self.clock.monotonic() / 2, self.memory)]

    def after(self, seconds: float) -> None:
        """Let the meter come to rest, time pass, and the meter do what is due."""
        self.clock.pass_time(seconds)
        self.clock.wait_for_waiters()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.meter.start()
    yield bench
    bench.meter.stop()


def test_when_nobody_looks_only_peaks_are_kept_and_what_can_not_be_measured_is_tried_again(bench: Bench) -> None:
    bench.after(PEAKS_EVERY - 1)
    assert bench.measured == 0
    bench.memory = 700
    bench.after(1)
    bench.memory = 50
    bench.after(PEAKS_EVERY)
    assert bench.measured == 2
    assert bench.peaks.of_pod("ns", "p") == {"c": 700}
    bench.broken = True
    bench.after(PEAKS_EVERY)
    bench.broken, bench.memory = False, 900
    bench.after(PEAKS_EVERY)
    assert bench.peaks.of_pod("ns", "p") == {"c": 900}


def test_a_reader_gets_a_fresh_measurement_at_once_and_many_share_one(bench: Bench) -> None:
    bench.after(4)
    first = bench.meter.read()
    assert (first.window, first.containers[0].cpu) == (4.0, 0.5)
    assert all(bench.meter.read() is first for _ in range(5))
    assert bench.measured == 1
    bench.after(FRESH)
    assert bench.meter.read() is not first
    assert bench.measured == 2


def test_a_listener_is_told_as_often_as_it_wants(bench: Bench) -> None:
    usages: queue.Queue[Usage] = queue.Queue()
    bench.clock.wait_for_waiters()
    bench.meter.subscribe(usages.put, 2.0)
    for _ in range(3):
        bench.after(2.0)
        assert usages.get(timeout=10).window == 2.0


def test_a_reader_does_not_wait_for_ever(bench: Bench) -> None:
    bench.after(2)
    usage = bench.meter.read()
    bench.broken = True
    bench.after(FRESH)
    reading: Any = InThread(bench.meter.read)
    eventually(lambda: bench.measured == 2, within=60, what="the reader has asked")
    bench.clock.pass_time(6, waiters=2)
    assert reading.result(within=60) is usage


def test_after_its_end_it_says_what_it_knew() -> None:
    bench = Bench()
    bench.meter.stop()
    assert bench.meter.read() is None
    bench.meter.stop()


START = datetime(2026, 1, 1, tzinfo=UTC)


def reading(at: float, *containers: Measurement, busy: float = 0.0, memory: int = 0, **more: GpuUse) -> Reading:
    gpus = {ContainerName("ns", pod, "c"): use for pod, use in more.items()}
    return Reading(START + timedelta(seconds=at), at, MachineUse(busy, memory), containers, gpus)


def measured(cpu: float, memory: int = 1, *, name: ContainerName = NAME, attempt: str = "1") -> Measurement:
    return Measurement(name, attempt, "uid", cpu, memory)


def test_what_is_used_per_second() -> None:
    other, use = ContainerName("ns", "q", "c"), GpuUse(2, 1.5, 100)
    later = reading(14, measured(6.0, 7), measured(1.0, name=other), busy=106, memory=9, q=use)
    usage = usage_between(reading(10, measured(4.0), busy=100), later)
    cpu_only, with_gpu = usage.containers
    assert (cpu_only.cpu, cpu_only.memory, cpu_only.pod_uid, cpu_only.gpu, with_gpu.gpu) == (0.5, 7, "uid", None, use)
    assert (usage.window, usage.machine_cpu, usage.machine_memory) == (4.0, 1.5, 9)
    assert usage.taken == START + timedelta(seconds=14)


@pytest.mark.parametrize("before", [(), (measured(50.0, attempt="0"),)], ids=["new", "started again"])
def test_a_container_began_with_nothing(before: tuple[Measurement, ...]) -> None:
    [container] = usage_between(reading(0, *before), reading(2, measured(1.0))).containers
    assert container.cpu == 0.5


def test_use_is_never_less_than_nothing_and_one_that_has_ended_is_gone() -> None:
    usage = usage_between(reading(0, measured(5.0), busy=10), reading(0, measured(4.0), busy=9))
    assert (usage.containers[0].cpu, usage.machine_cpu) == (0.0, 0.0)
    assert usage.window > 0
    assert usage_between(reading(0, measured(5.0)), reading(1)).containers == ()
