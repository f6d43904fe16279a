from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tfoperator.local.gpus import GpuUse
from tfoperator.local.runtime import ContainerName, Measurement
from tfoperator.local.usage import MachineUse, Reading, usage_between

START = datetime(2026, 1, 1, tzinfo=UTC)
NAME = ContainerName("ns", "p", "c")


def reading(at: float, *containers: Measurement, busy: float = 0.0, memory: int = 0, **more: GpuUse) -> Reading:
    gpus = {ContainerName("ns", pod, "c"): use for pod, use in more.items()}
    return Reading(START + timedelta(seconds=at), at, MachineUse(busy, memory), containers, gpus)


def measured(cpu: float, memory: int = 1, *, name: ContainerName = NAME, attempt: str = "1") -> Measurement:
    return Measurement(name, attempt, "uid", cpu, memory)


def test_what_is_used_per_second() -> None:
    usage = usage_between(reading(10, measured(4.0), busy=100), reading(14, measured(6.0, 7), busy=106, memory=9))
    [one] = usage.containers
    assert (one.cpu, one.memory, one.pod_uid, one.gpu) == (0.5, 7, "uid", None)
    assert (usage.window, usage.machine_cpu, usage.machine_memory) == (4.0, 1.5, 9)
    assert usage.taken == START + timedelta(seconds=14)


@pytest.mark.parametrize("before", [(), (measured(50.0, attempt="0"),)], ids=["new", "started again"])
def test_a_container_began_with_nothing(before: tuple[Measurement, ...]) -> None:
    [one] = usage_between(reading(0, *before), reading(2, measured(1.0))).containers
    assert one.cpu == 0.5


def test_use_is_never_less_than_nothing() -> None:
    usage = usage_between(reading(0, measured(5.0), busy=10), reading(0, measured(4.0), busy=9))
    assert (usage.containers[0].cpu, usage.machine_cpu) == (0.0, 0.0)
    assert usage.window > 0


def test_one_that_has_ended_is_gone() -> None:
    assert usage_between(reading(0, measured(5.0)), reading(1)).containers == ()


def test_gpus_are_those_of_the_container() -> None:
    other = ContainerName("ns", "q", "c")
    use = GpuUse(2, 1.5, 100)
    usage = usage_between(reading(0), reading(1, measured(1.0), measured(1.0, name=other), q=use))
    assert [one.gpu for one in usage.containers] == [None, use]
