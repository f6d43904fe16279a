"""Elastic jobs with real TensorFlow, and with Keras on JAX, on the embedded node: a GPU is taken and given back."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests
from tests.support.elastic_notes import EVERY, Notes
from tests.support.elastic_programs import FITTING, WRAPPED
from tests.support.eventually import eventually
from tests.support.local_cluster import ROOT
from tests.support.nvml import FakeNvml, uuids
from tests.support.threads import no_threads_left
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.views.objects import decode_pod
from tfoperator.kube.views.pod_spec import GPU
from tfoperator.local.controlplane import ControlPlane
from tfoperator.local.gpus.manager import DeviceLocks, GpuManager
from tfoperator.local.gpus.nvml import Nvml
from tfoperator.local.runtime.selection import RuntimeOptions

DEVICES = uuids(2)
LIMIT = 200
"""Seconds for each wait; a start takes some 10 on an idle machine of 2 cores."""

TRAIN = ROOT / "examples/elastic/train.py"


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
        embedded = ControlPlane(machine.folder / "plane", pods=RuntimeOptions(work_dir=ROOT))
        embedded.start()
        yield embedded
        embedded.stop()


def start(plane: ControlPlane, name: str, program: Path, folder: Path) -> None:
    """Start a job of two workers that run this program, and keep notes and checkpoints in the folder."""
    command = [sys.executable, "-c", WRAPPED, str(folder), str(program)]
    container: dict[str, Any] = {"name": "tensorflow", "image": "x", "command": command}
    variables = {"PYTHONPATH": str(ROOT), "TFOPERATOR_CHECKPOINT_DIR": str(folder)}
    container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    container["resources"] = {"limits": {GPU: 1}}
    pod = {"containers": [container], "terminationGracePeriodSeconds": 20}
    worker = {"replicas": 2, "restartPolicy": "OnFailure", "template": {"spec": pod}}
    job = manifests.job(name, {"Worker": worker})
    job["spec"]["elasticPolicy"] = {"maxReplicas": 3, "shrinkAfterSeconds": 2, "growAfterSeconds": 4}
    plane.client.create(TFJOBS, "default", job, decode_tfjob)


def read(plane: ControlPlane, name: str) -> TFJob:
    return plane.client.get(TFJOBS, "default", name, decode_tfjob)


def end(plane: ControlPlane, name: str) -> None:
    """Delete the job, and wait until its machines are free."""
    plane.client.delete(TFJOBS, "default", name)
    eventually(lambda: not plane.client.list(PODS, "default", decode_pod).items, within=60, what="the pods are gone")


def take_and_give_back(plane: ControlPlane, machine: Machine, name: str, notes: Notes) -> None:
    """Let a job that trains with two workers lose a machine, and have it again."""
    eventually(lambda: notes.trains_with(2, 1), within=LIMIT, what="two workers train")
    plane.client.delete(PODS, "default", f"{name}-worker-1")
    eventually(machine.take_one, within=60, every=0.005, what="the GPU is taken")
    eventually(lambda: notes.trains_with(1, 2), within=LIMIT, what="one worker goes on")
    smaller = read(plane, name).status
    assert smaller.elastic is not None
    assert (smaller.elastic.workers, smaller.ready) == (1, "1/1")
    assert "1 replica has had no node for 2 seconds (Insufficient nvidia.com/gpu)" in smaller.elastic.reason
    machine.give_back()
    eventually(lambda: notes.trains_with(2, 3), within=LIMIT, what="two workers train again")
    assert notes.lost() == [0, 0], "a change of size is announced"
    assert read(plane, name).status.restarts == read(plane, name).status.disruptions == 3


@pytest.mark.tensorflow
@pytest.mark.timeout(5 * LIMIT)
def test_a_machine_that_is_taken_and_given_back_costs_no_step_and_a_kill_costs_those_since_the_checkpoint(
    plane: ControlPlane, machine: Machine, tmp_path: Path
) -> None:
    notes = Notes(tmp_path / "notes")
    start(plane, "taken", TRAIN, tmp_path)
    take_and_give_back(plane, machine, "taken", notes)
    os.kill(int((tmp_path / "process-1").read_text()), signal.SIGKILL)
    eventually(lambda: notes.trains_with(2, 4), within=LIMIT, what="both start again")
    assert notes.lost()[:2] == [0, 0]
    assert 0 <= notes.lost()[2] <= EVERY + 1, "a kill is not announced"
    end(plane, "taken")


@pytest.mark.tensorflow
@pytest.mark.timeout(4 * LIMIT)
def test_keras_on_jax_goes_on_with_the_processes_that_there_are_and_loses_no_step(
    plane: ControlPlane, machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "fitting.py").write_text(FITTING)
    start(plane, "fitted", tmp_path / "fitting.py", tmp_path)
    take_and_give_back(plane, machine, "fitted", Notes(tmp_path / "notes"))
    end(plane, "fitted")
