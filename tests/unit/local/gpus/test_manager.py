from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.nvml import FakeNvml, uuids
from tests.unit.local.node.pods import container, manifest, view
from tfoperator.local.gpus import GpuManager, NotEnoughGpus
from tfoperator.local.gpus.nvml import Nvml
from tfoperator.local.runtime import ContainerName, LocalPod

Open = Callable[..., GpuManager]


def pod(name: str, *numbers: int) -> LocalPod:
    containers = [container(f"c{i}", resources={"limits": {"nvidia.com/gpu": n}}) for i, n in enumerate(numbers)]
    return view(manifest(name, *(containers or [container("c0")])))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    managers: list[GpuManager] = []

    def open_one(machine: FakeNvml, **environ: str) -> GpuManager:
        one = GpuManager(library=lambda: Nvml(machine), environ=environ, locks=tmp_path / "locks")
        managers.append(one)
        one.open()
        return one

    yield open_one
    for one in managers:
        one.close()


def devices(manager: GpuManager, of: LocalPod) -> Any:
    return [manager.devices_of(of, one) for one in of.spec.containers]


def test_each_container_has_devices_of_its_own_and_the_others_none(opened: Open) -> None:
    a, b, c = uuids(3)
    manager = opened(FakeNvml([a, b, c]))
    first, second, third = pod("first", 1, 1), pod("second"), pod("third", 1)
    for one in (first, second, third):
        manager.acquire(one)
        manager.acquire(one)  # a worker that asks twice
    assert devices(manager, first) == [(a,), (b,)]
    assert devices(manager, second) == [()]
    assert devices(manager, third) == [(c,)]


def test_more_than_there_are_free_waits_with_the_words_of_a_scheduler(opened: Open) -> None:
    manager = opened(FakeNvml(uuids(2)))
    first, second = pod("first", 1), pod("second", 2)
    manager.acquire(first)
    with pytest.raises(NotEnoughGpus) as refused:
        manager.acquire(second)
    assert str(refused.value).startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: ")
    assert refused.value.details == "2 asked for, 1 of 2 free on this machine"
    manager.release(first)
    manager.release(first)
    manager.acquire(second)
    with pytest.raises(NotEnoughGpus, match="Preemption is not helpful"):
        manager.acquire(pod("third", 3))


def test_two_control_planes_of_a_machine_share_it(opened: Open) -> None:
    there = uuids(2)
    ours, theirs = opened(FakeNvml(there)), opened(FakeNvml(there))
    first, second = pod("first", 1), pod("second", 2)
    ours.acquire(first)
    with pytest.raises(NotEnoughGpus, match="Insufficient"):
        theirs.acquire(second)
    third = pod("third", 1)
    theirs.acquire(third)
    assert {*devices(ours, first), *devices(theirs, third)} == {(there[0],), (there[1],)}
    ours.close()
    theirs.release(third)
    theirs.acquire(second)


def test_a_machine_without_gpus_gives_none_and_says_why(opened: Open) -> None:
    machine = FakeNvml([])
    machine.driver = False
    manager = opened(machine)
    wanting = pod("wanting", 4)
    manager.acquire(wanting)
    assert (manager.count, devices(manager, wanting)) == (0, [None])
    assert "Driver Not Loaded" in manager.problem


def test_what_the_shell_hides_is_not_given_away(opened: Open) -> None:
    there = uuids(3)
    manager = opened(FakeNvml(there), CUDA_VISIBLE_DEVICES="2")
    one = pod("one", 1)
    manager.acquire(one)
    assert (manager.count, devices(manager, one)) == (1, [(there[2],)])
    nothing = opened(FakeNvml(there), CUDA_VISIBLE_DEVICES="-1")
    nothing.acquire(one)
    assert (nothing.count, devices(nothing, one)) == (0, [()])
    assert nothing.problem == "CUDA_VISIBLE_DEVICES=-1 leaves none of 3"


def test_how_busy_they_are(opened: Open) -> None:
    a, b, c = uuids(3)
    machine = FakeNvml([a, b, c])
    manager = opened(machine)
    two, one = pod("two", 2), pod("one", 1)
    manager.acquire(two)
    manager.acquire(one)
    machine.busy[a] = 100
    use = manager.use()
    assert use[ContainerName("ns", "two", "c0")].busy == 1.5
    assert use[ContainerName("ns", "two", "c0")].memory == 2 << 30
    machine.broken.add(c)
    assert manager.use()[ContainerName("ns", "one", "c0")].busy == 0
    manager.release(two)
    manager.release(one)
    assert manager.use() == {}
