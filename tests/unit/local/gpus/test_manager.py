import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.eventually import eventually
from tests.support.nvml import FakeNvml, uuids
from tests.unit.local.node.pods import container, manifest, view
from tfoperator.local.gpus.manager import DeviceLocks, GpuManager, NotEnoughGpus
from tfoperator.local.gpus.nvml import Nvml
from tfoperator.local.runtime.measurements import ContainerName
from tfoperator.local.runtime.protocol import LocalPod

Open = Callable[..., GpuManager]


def pod(name: str, *numbers: int) -> LocalPod:
    containers = [container(f"c{i}", resources={"limits": {"nvidia.com/gpu": n}}) for i, n in enumerate(numbers)]
    return view(manifest(name, *(containers or [container("c0")])))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    managers: list[GpuManager] = []

    def open_manager(machine: FakeNvml, **environ: str) -> GpuManager:
        manager = GpuManager(library=lambda: Nvml(machine), environ=environ, locks=tmp_path / "locks")
        managers.append(manager)
        manager.open()
        return manager

    yield open_manager
    for manager in managers:
        manager.close()


def devices(manager: GpuManager, of: LocalPod) -> Any:
    return [manager.devices_of(of, spec) for spec in of.spec.containers]


def test_more_than_is_free_waits_with_the_words_of_a_scheduler_whichever_control_plane_has_the_rest(
    opened: Open,
) -> None:
    there = uuids(2)
    ours, theirs = opened(FakeNvml(there)), opened(FakeNvml(there))
    first, second, third = pod("first", 1), pod("second", 2), pod("third", 1)
    ours.acquire(first)
    for manager in (ours, theirs):
        with pytest.raises(NotEnoughGpus) as refused:
            manager.acquire(second)
        assert str(refused.value).startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: ")
        assert refused.value.details == "2 requested, but 1 of 2 free on this machine"
    theirs.acquire(third)
    assert {*devices(ours, first), *devices(theirs, third)} == {(there[0],), (there[1],)}
    ours.close()
    theirs.release(third)
    theirs.release(third)
    theirs.acquire(second)
    with pytest.raises(NotEnoughGpus, match="Preemption is not helpful"):
        theirs.acquire(pod("fourth", 3))


def test_a_machine_without_gpus_gives_none_nor_one_whose_shell_hides_them_and_says_why(opened: Open) -> None:
    machine = FakeNvml([])
    machine.driver = False
    manager = opened(machine)
    wanting = pod("wanting", 4)
    manager.acquire(wanting)
    assert (manager.count, devices(manager, wanting)) == (0, [None])
    assert "Driver Not Loaded" in manager.problem
    there = uuids(3)
    manager = opened(FakeNvml(there), CUDA_VISIBLE_DEVICES="2")
    consumer = pod("one", 1)
    manager.acquire(consumer)
    assert (manager.count, devices(manager, consumer)) == (1, [(there[2],)])
    nothing = opened(FakeNvml(there), CUDA_VISIBLE_DEVICES="-1")
    nothing.acquire(consumer)
    assert (nothing.count, devices(nothing, consumer)) == (0, [()])
    assert nothing.problem == "CUDA_VISIBLE_DEVICES=-1 selects none of the 3 GPUs of this machine"


def test_each_container_has_devices_of_its_own_and_how_busy_they_are(opened: Open) -> None:
    a, b, c, d = uuids(4)
    machine = FakeNvml([a, b, c, d])
    manager = opened(machine)
    pods = pod("two", 2, 1), pod("one", 1), pod("none")
    for each in pods:
        manager.acquire(each)
    assert [devices(manager, each) for each in pods] == [[(a, b), (c,)], [(d,)], [()]]
    machine.busy[a] = 100
    use = manager.use()[ContainerName("ns", "two", "c0")]
    assert (use.busy, use.memory) == (1.5, 2 << 30)
    machine.broken.add(d)
    assert manager.use()[ContainerName("ns", "one", "c0")].busy == 0
    for each in pods:
        manager.release(each)
    assert manager.use() == {}


class Sharing(RuleBasedStateMachine):
    """Pods of two control planes of a machine come, ask again, and go."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.there = uuids(8)
        library, locks = lambda: Nvml(FakeNvml(self.there)), Path(self.folder.name)
        self.managers = [GpuManager(library=library, environ={}, locks=locks) for _ in range(2)]
        for manager in self.managers:
            manager.open()
        self.held: dict[tuple[int, str], tuple[LocalPod, tuple[str, ...]]] = {}

    @rule(plane=st.integers(0, 1), name=st.sampled_from("123456"), count=st.integers(1, 9))
    def ask(self, plane: int, name: str, count: int) -> None:
        if (plane, name) in self.held:
            self.managers[plane].acquire(self.held[plane, name][0])  # a worker that asks twice
            return
        wanting = pod(name, count)
        taken = {device for _, devices in self.held.values() for device in devices}
        if count > 8 - len(taken):
            with pytest.raises(NotEnoughGpus):
                self.managers[plane].acquire(wanting)
            return
        self.managers[plane].acquire(wanting)
        (given,) = devices(self.managers[plane], wanting)
        assert len(given) == count
        assert not taken & set(given)
        self.held[plane, name] = wanting, given

    @rule(plane=st.integers(0, 1), name=st.sampled_from("123456"))
    def go(self, plane: int, name: str) -> None:
        gone, _ = self.held.pop((plane, name), (pod(name, 1), ()))
        self.managers[plane].release(gone)
        assert devices(self.managers[plane], gone) == [()]

    @invariant()
    def pods_keep_their_devices(self) -> None:
        assert all(devices(self.managers[plane], of) == [own] for (plane, _), (of, own) in self.held.items())

    def teardown(self) -> None:
        for manager in self.managers:
            manager.close()
        self.folder.cleanup()


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=30, stateful_step_count=20)


HOLD = """
import sys, time
from pathlib import Path
from tfoperator.local.gpus.manager import DeviceLocks
locks = DeviceLocks(Path(sys.argv[1]))
print(sorted(locks.try_all(["a", "b"])), flush=True)
sys.stdin.read()
"""


def test_what_one_has_no_other_gets_until_it_is_given_back_or_its_process_is_killed(tmp_path: Path) -> None:
    ours, theirs = DeviceLocks(tmp_path / "locks"), DeviceLocks(tmp_path / "locks")
    assert ours.try_all(["a", "b"]) == {"a", "b"}
    assert ours.try_all(["a"]) == {"a"}
    assert theirs.try_all(["a", "b", "c"]) == {"c"}
    ours.release(["a", "nothing"])
    assert theirs.try_all(["a", "b"]) == {"a"}
    ours.release_all()
    assert theirs.try_all(["b"]) == {"b"}
    theirs.release_all()
    command = [sys.executable, "-c", HOLD, str(tmp_path / "locks")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "['a', 'b']\n"
        locks = DeviceLocks(tmp_path / "locks")
        assert locks.try_all(["a", "b"]) == set()
        other.kill()
    eventually(lambda: locks.try_all(["a", "b"]) == {"a", "b"}, what="the locks are free")
    locks.release_all()


def test_the_folder_is_for_everybody_and_nobody_can_remove_anothers_file(tmp_path: Path) -> None:
    before = os.umask(0o077)
    locks = DeviceLocks(tmp_path / "locks")
    try:
        locks.try_all(["a"])
    finally:
        os.umask(before)
        locks.release_all()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("locks", "locks/a.lock")]
    assert modes == [0o1777, 0o644]


def test_what_somebody_else_has_put_there_is_not_touched(tmp_path: Path) -> None:
    folder, secret = tmp_path / "locks", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("mine")
    secret.chmod(0o600)
    (folder / "a.lock").symlink_to(secret)
    (folder / "b.lock").mkdir()
    os.mkfifo(folder / "c.lock")
    locks = DeviceLocks(folder)
    assert locks.try_all(["a", "b", "c"]) == {"a", "b", "c"}  # other users must not keep a machine from its own devices
    locks.release_all()
    assert (secret.read_text(), stat.S_IMODE(secret.stat().st_mode)) == ("mine", 0o600)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    DeviceLocks(tmp_path / "link").try_all(["a"])
    assert list((tmp_path / "elsewhere").iterdir()) == []
