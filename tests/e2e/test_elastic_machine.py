"""An elastic job with real TensorFlow on the embedded node, whose GPUs are taken and given back: 2 workers, 1, 2."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests
from tests.support.eventually import eventually
from tests.support.local_cluster import ROOT
from tests.support.nvml import FakeNvml, uuids
from tests.support.threads import no_threads_left
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.views.pod_spec import GPU
from tfoperator.local.controlplane import ControlPlane
from tfoperator.local.gpus.manager import DeviceLocks, GpuManager
from tfoperator.local.gpus.nvml import Nvml
from tfoperator.local.runtime.selection import RuntimeOptions

DEVICES = uuids(2)
LIMIT = 200
"""Seconds for each wait; a start takes some 10 on an idle machine of 2 cores."""

TRAIN = ROOT / "examples/elastic/train.py"
EVERY = 5
"""Steps between two checkpoints of this program."""

WRAPPED = """
import json, os, runpy, sys
folder, program = sys.argv[1:]
task = json.loads(os.environ.get("TF_CONFIG") or '{"task": {"index": 0}}')["task"]["index"]
open(f"{folder}/process-{task}", "w").write(str(os.getpid()))
sys.stdout = open(f"{folder}/notes", "a", 1)
sys.argv = [program, "--steps", "1000000", "--checkpoint-dir", folder]
runpy.run_path(program, run_name="__main__")
"""
"""Runs a program that appends its output to FOLDER/notes; FOLDER/process-N has the number of worker N's process."""


class Notes:
    """The lines of a program's workers: `worker T of N begins after step S` and `worker T of N step S`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self, pattern: str) -> list[tuple[int, ...]]:
        text = self._path.read_text() if self._path.exists() else ""
        return [tuple(map(int, one)) for one in re.findall(rf"^worker {pattern}$", text, re.MULTILINE)]

    def trains_with(self, workers: int, starts: int) -> bool:
        """Whether worker 0 has begun so many times, and trains with so many workers now."""
        begun = self.lines(r"0 of (\d+) begins after step (\d+)")
        steps = self.lines(r"0 of (\d+) step (\d+)")
        if len(begun) != starts or not steps or begun[-1][0] != workers:
            return False
        return steps[-1][0] == workers and steps[-1][1] > begun[-1][1] + EVERY

    def lost(self) -> list[int]:
        """How many steps of worker 0 each of its starts but the first has lost."""
        lost, last = [], 0
        for kind, step in re.findall(
            r"^worker 0 of \d+ (begins after|step)(?: step)? (\d+)", self._path.read_text(), re.MULTILINE
        ):
            if kind == "begins after":
                lost.append(last - int(step))
            else:
                assert int(step) == (last + 1 if not lost[-1] else int(step)), "each step is made in order"
            last = int(step)
        return lost[1:]


class Machine:
    """A control plane of this process on a machine with two GPUs, which another program may take."""

    def __init__(self, folder: Path) -> None:
        self._locks = folder / "locks"
        self._taken = DeviceLocks(self._locks)
        self.folder = folder

    def gpus(self) -> GpuManager:
        return GpuManager(library=lambda: Nvml(FakeNvml(DEVICES)), environ={}, locks=self._locks)

    def take_one(self) -> bool:
        """Take a GPU if one is free."""
        return any(self._taken.try_all([device]) for device in DEVICES)

    def give_back(self) -> None:
        self._taken.release_all()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="module")
def plane(machine: Machine) -> Iterator[ControlPlane]:
    with no_threads_left(), pytest.MonkeyPatch.context() as patched:
        patched.setattr("tfoperator.local.controlplane.GpuManager", machine.gpus)
        found = ControlPlane(machine.folder / "plane", pods=RuntimeOptions(work_dir=ROOT))
        found.start()
        yield found
        found.stop()


def start(plane: ControlPlane, name: str, command: list[str], workers: int) -> None:
    container: dict[str, Any] = {"name": "tensorflow", "image": "x", "command": command}
    container["env"] = [{"name": "PYTHONPATH", "value": str(ROOT)}]
    container["resources"] = {"limits": {GPU: 1}}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 20}
    worker = {"replicas": workers, "restartPolicy": "OnFailure", "template": {"spec": pod}}
    job = manifests.job(name, {"Worker": worker})
    job["spec"]["elasticPolicy"] = {"maxReplicas": 3, "shrinkAfterSeconds": 2, "growAfterSeconds": 4}
    plane.client.create(TFJOBS, "default", job, decode_tfjob)


def read(plane: ControlPlane, name: str) -> TFJob:
    return plane.client.get(TFJOBS, "default", name, decode_tfjob)


@pytest.mark.tensorflow
@pytest.mark.timeout(5 * LIMIT)
def test_a_machine_that_is_taken_and_given_back_costs_no_step_and_a_kill_costs_those_since_the_checkpoint(
    plane: ControlPlane, machine: Machine, tmp_path: Path
) -> None:
    notes = Notes(tmp_path / "notes")
    start(plane, "taken", [sys.executable, "-c", WRAPPED, str(tmp_path), str(TRAIN)], 2)
    eventually(lambda: notes.trains_with(2, 1), within=LIMIT, what="two workers train")
    plane.client.delete(PODS, "default", "taken-worker-1")
    eventually(machine.take_one, within=60, every=0.005, what="the GPU is taken")
    eventually(lambda: notes.trains_with(1, 2), within=LIMIT, what="one worker goes on")
    smaller = read(plane, "taken").status
    assert smaller.elastic is not None
    assert (smaller.elastic.workers, smaller.ready) == (1, "1/1")
    assert "1 replica has had no node for 2 seconds (Insufficient nvidia.com/gpu)" in smaller.elastic.reason
    machine.give_back()
    eventually(lambda: notes.trains_with(2, 3), within=LIMIT, what="two workers train again")
    assert notes.lost() == [0, 0], "a change of size is announced"
    assert read(plane, "taken").status.restarts == read(plane, "taken").status.disruptions == 3
    os.kill(int((tmp_path / "process-1").read_text()), signal.SIGKILL)
    eventually(lambda: notes.trains_with(2, 4), within=LIMIT, what="both start again")
    assert notes.lost()[:2] == [0, 0]
    assert 0 <= notes.lost()[2] <= EVERY + 1, "a kill is not announced"
    plane.client.delete(TFJOBS, "default", "taken")
