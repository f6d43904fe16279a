"""Helm 4 with `--wait`, which reads a job by kstatus as Flux does: `docs/gitops.md`."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack import gobuild
from hack.controlplane import ControlPlane
from hack.faults.oracle.clients import kstatus_of
from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane

PATIENCE = 20
"""Seconds that Helm waits: it needs one second, and reads what the operator has written meanwhile."""

CHART = {"apiVersion": "v2", "name": "trains", "version": "1.0.0"}
TEMPLATE = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: trains
spec:
  runPolicy: {suspend: {{ .Values.suspend }}, ttlSecondsAfterFinished: {{ .Values.ttl }}}
  tfReplicaSpecs:
    Chief: &replica
      template: {spec: {containers: [{name: tensorflow, image: "example.invalid/x:1"}]}}
    Worker: *replica
"""


class Release:
    """A release whose chart has one job; `ttl` is what an upgrade of it changes in the job's spec."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._chart = folder / "chart"
        self._home = {**os.environ, "HOME": str(folder)}
        self._common = (f"--kubeconfig={plane.kubeconfig}", f"--namespace={cluster.namespace}")
        (self._chart / "templates").mkdir(parents=True)
        (self._chart / "Chart.yaml").write_text(yaml.safe_dump(CHART))
        (self._chart / "templates" / "job.yaml").write_text(TEMPLATE)

    def deploy(self, verb: str, ttl: int, *, suspend: bool = False) -> None:
        """Install or upgrade it, and wait as Helm does; if Helm fails, the test fails with Helm's output."""
        values = (f"--set=ttl={ttl}", f"--set=suspend={str(suspend).lower()}")
        command = [str(gobuild.find("helm")), verb, "trains", str(self._chart), *values, *self._common]
        command += ["--wait", f"--timeout={PATIENCE}s"]
        limit = PATIENCE + 40
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=self._home, check=False)
        assert done.returncode == 0, done.stdout + done.stderr + str(self.job().get("status"))
        assert self.job()["spec"]["runPolicy"]["ttlSecondsAfterFinished"] == ttl

    def job(self) -> dict[str, Any]:
        return self._cluster.job("trains")

    def until(self, kind: str, ready: str) -> None:
        """Wait until this is the last condition, the operator has seen the newest spec, and so many are ready."""

        def reached() -> None:
            status = self.job().get("status", {})
            assert status.get("conditions", [{"type": ""}])[-1]["type"] == kind, status
            assert status.get("ready") == ready, status

        eventually(lambda: reached() is None, every=0.05, what=f"the job is {kind}, {ready}")
        assert kstatus_of(self.job()) == "Current"


@pytest.fixture
def release(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, start_operator: Callable[..., OperatorProcess]
) -> Release:
    start_operator()
    return Release(plane, cluster, tmp_path)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("outcome", "code"), [("Succeeded", 0), ("Failed", 3)])
def test_an_installation_and_each_upgrade_of_a_job_are_done_at_once(
    release: Release, cluster: Cluster, outcome: str, code: int
) -> None:
    release.deploy("install", 1000)
    cluster.wait_pods(2)
    release.deploy("upgrade", 1001)
    cluster.set_phase("trains-chief-0", "Running")
    release.until("Running", "1/2")  # and a worker still pulls its image
    release.deploy("upgrade", 1002)
    cluster.set_phase("trains-worker-0", "Running")
    release.until("Running", "2/2")
    release.deploy("upgrade", 1003)
    cluster.set_phase("trains-chief-0", outcome, exit_code=code)
    release.until(outcome, "0/2")
    release.deploy("upgrade", 1003)  # without a change, and the job has ended
    release.deploy("upgrade", 1004)  # nor does an edit of it bring it back
    release.until(outcome, "0/2")


@pytest.mark.timeout(120)
def test_a_suspended_job_is_installed_upgraded_and_resumed(release: Release, cluster: Cluster) -> None:
    release.deploy("install", 1000, suspend=True)
    release.until("Suspended", "0/2")
    release.deploy("upgrade", 1001, suspend=True)
    release.deploy("upgrade", 1001)
    cluster.run_pods(2)
    release.until("Running", "2/2")
    release.deploy("upgrade", 1001, suspend=True)
    release.until("Suspended", "0/2")
    release.deploy("upgrade", 1002, suspend=True)
