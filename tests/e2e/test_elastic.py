"""Elastic jobs on the embedded node, whose GPUs are taken and given back: 2 workers, 1, and 2 again."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests
from tests.support.cli import Cli
from tests.support.eventually import eventually
from tests.support.jobs import write_kubeconfig
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
        return len(begun) == starts and begun[-1][0] == workers == steps[-1][0] and steps[-1][1] > begun[-1][1] + EVERY

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


def start(plane: ControlPlane, name: str, command: list[str], workers: int, *, gpus: int = 1) -> None:
    container: dict[str, Any] = {"name": "tensorflow", "image": "x", "command": command}
    container["env"] = [{"name": "PYTHONPATH", "value": str(ROOT)}]
    if gpus:
        container["resources"] = {"limits": {GPU: gpus}}
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
    assert "1 replica has had no room for 2 seconds (Insufficient nvidia.com/gpu)" in smaller.elastic.reason
    machine.give_back()
    eventually(lambda: notes.trains_with(2, 3), within=LIMIT, what="two workers train again")
    assert notes.lost() == [0, 0], "a change of size is announced"
    assert read(plane, "taken").status.restarts == read(plane, "taken").status.disruptions == 3
    os.kill(int((tmp_path / "process-1").read_text()), signal.SIGKILL)
    eventually(lambda: notes.trains_with(2, 4), within=LIMIT, what="both start again")
    assert notes.lost()[:2] == [0, 0]
    assert 0 <= notes.lost()[2] <= EVERY + 1, "a kill is not announced"
    plane.client.delete(TFJOBS, "default", "taken")


SLEEPER = """
import json, os, signal, sys, time
config = json.loads(os.environ.get("TF_CONFIG") or '{"cluster": {"worker": [0]}, "task": {"index": 0}}')
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
workers, task = len(config["cluster"]["worker"]), config["task"]["index"]
print(f"worker {task} of {workers} begins after 0", os.getpid(), file=open(sys.argv[1], "a", 1), flush=True)
time.sleep(600)
"""


def test_scaling_a_running_job_gives_all_workers_the_new_number(plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", plane.endpoint.kubeconfig(), "default")
    cli, notes = Cli(tmp_path, KUBECONFIG=str(kubeconfig)), Notes(tmp_path / "notes")
    start(plane, "scaled", [sys.executable, "-c", SLEEPER, str(tmp_path / "notes")], 1, gpus=0)

    def begun(workers: int) -> bool:
        return {task for task, of, _ in notes.lines(r"(\d) of (\d) begins after 0 (\d+)") if of == workers} == {
            *range(workers)
        }

    eventually(lambda: begun(1), within=60, what="one worker runs")
    for workers in (3, 2):
        said = cli.run("scale", "scaled", "--workers", str(workers), code=0)
        assert "warning" not in said.stderr
        eventually(lambda workers=workers: begun(workers), within=60, what=f"{workers} workers run")
    refused = cli.run("scale", "scaled", "--workers", "4", code=1)
    assert "must be at least tfReplicaSpecs.Worker.replicas" in refused.stderr
    eventually(lambda: read(plane, "scaled").status.ready == "2/2", within=30, what="both are ready")
    status = read(plane, "scaled").status
    assert status.elastic is not None
    assert (status.elastic.workers, status.elastic.changes, status.elastic.reason) == (2, 2, "the job was scaled to 2")
    said = cli.run("describe", "scaled", code=0).stdout
    assert "TFJobResized" in said
    assert re.search(r"^Workers: +2 since .*, because the job was scaled to 2 \(2 changes\)$", said, re.MULTILINE)
    assert "from 1 to 3 workers, because there is room for 2 more" in said
    plane.client.delete(TFJOBS, "default", "scaled")
