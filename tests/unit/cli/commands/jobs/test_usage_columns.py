"""The usage of jobs and replicas, in `describe` and `get -o wide`, with and without a source of measurements."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.jobs import JobWorld, write_kubeconfig
from tests.support.measured import Measured
from tests.unit.cli.conftest import Run
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.local.gpus.manager import GpuUse


def cells(line: str) -> list[str]:
    return re.split(r" {3,}", line.strip())


class MeasuredWorld(JobWorld):
    def __init__(self, client: Client, measured: Measured, run: Run, kubeconfig: Path) -> None:
        super().__init__(client)
        self.measured = measured
        self._run = run
        self._options = ("--kubeconfig", str(kubeconfig), "-n", self.namespace)

    def uses(self, replica: str, cpu: float, memory: int, gpu: GpuUse | None = None, job: str = "mnist") -> None:
        self.measured.uses(self.client, self.namespace, f"{job}-{replica}", cpu, memory, gpu)

    def tell(self, *arguments: str) -> list[str]:
        return self._run(*arguments, *self._options, code=0).out.splitlines()


@pytest.fixture
def measured_world(tmp_path: Path, run: Run) -> Iterator[MeasuredWorld]:
    measured = Measured()
    with EmbeddedApiServer(usage=measured.read) as server:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.kubeconfig(), "default")
        with Client(load_config(str(kubeconfig))) as client:
            yield MeasuredWorld(client, measured, run, kubeconfig)


def test_describe_shows_what_each_replica_uses(measured_world: MeasuredWorld) -> None:
    measured_world.submit(Worker=3)
    measured_world.pod("worker-0")
    measured_world.pod("worker-1")
    measured_world.uses("worker-0", 0.5, 100 << 20)
    rows = [cells(line) for line in measured_world.tell("describe", "mnist")]
    assert ["REPLICA", "STATE", "READY", "RESTARTS", "CPU", "MEMORY", "AGE", "NODE", "REASON"] in rows
    usage = {row[0]: row[4:6] for row in rows if row and row[0].startswith("worker-")}
    assert usage == {"worker-0": ["0.50", "100Mi"], "worker-1": ["-", "-"], "worker-2": ["-", "-"]}


def test_for_programs_too_but_a_plain_list_measures_nothing(measured_world: MeasuredWorld) -> None:
    measured_world.submit()
    measured_world.pod("worker-0")
    measured_world.uses("worker-0", 0.5, 1024, GpuUse(1, 0.25, 2048))
    for options in ((), ("-o", "json")):
        measured_world.tell("get", *options)
        assert measured_world.measured.asked == 0
    report = json.loads("\n".join(measured_world.tell("describe", "mnist", "-o", "json")))
    assert report["usage"] == {"mnist-worker-0": {"cpu": 0.5, "memory": 1024, "gpu": 0.25, "gpuMemory": 2048}}


def test_a_wide_list_adds_up_the_replicas_of_each_job(measured_world: MeasuredWorld) -> None:
    for job in ("mnist", "other", "idle"):
        measured_world.submit(job)
    for replica in ("worker-0", "worker-1"):
        measured_world.pod(replica)
        measured_world.uses(replica, 0.5, 1 << 30)
    measured_world.pod("worker-0", job="other")
    measured_world.uses("worker-0", 2.0, 1 << 20, GpuUse(2, 1.0, 3 << 30), job="other")
    header, *rows = (cells(line) for line in measured_world.tell("get", "-o", "wide"))
    first = header.index("CPU")
    assert header[first:] == ["CPU", "MEMORY", "GPU", "GPU MEMORY", "MESSAGE"]
    used = {row[0]: row[first : first + 4] for row in rows}
    assert used["mnist"] == ["1.00", "2.0Gi", "-", "-"]
    assert used["other"] == ["2.00", "1.0Mi", "1.00", "3.0Gi"]
    assert used["idle"] == ["-", "-", "-", "-"]
    assert measured_world.measured.asked == 1
