"""What the commands say of jobs that MultiKueue has run on another cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Json, decode
from tests.support.kueue_objects import QueueWorld, condition, queue_world
from tests.unit.cli.conftest import Run, Said
from tfoperator.api.queues import MANAGED_BY_MULTIKUEUE
from tfoperator.api.v1.types import TFJOBS

RUNS = (condition("QuotaReserved"), condition("Admitted"))
CHECKPOINT = {"volume": {"emptyDir": {}}, "mountPath": "/ckpt"}


class Manager(QueueWorld):
    """The cluster from which MultiKueue sends jobs away, with commands."""

    run: Run

    def tell(self, *arguments: str, code: int | None = None) -> Said:
        return self.run(*arguments, "--kubeconfig", str(self.kubeconfig), code=code)

    def submit_far(self, name: str, **spec: object) -> Json:
        template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
        policy = {"managedBy": MANAGED_BY_MULTIKUEUE}
        spec = {"runPolicy": policy, "tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}, **spec}
        return self.client.create(TFJOBS, self.namespace, {"metadata": {"name": name}, "spec": spec}, decode)

    def copies(self, name: str, *conditions: Json, **status: object) -> None:
        """What Kueue writes here of what becomes of the job there."""
        change = {"status": {"conditions": list(conditions), **status}}
        self.client.patch(TFJOBS, self.namespace, name, change, decode, subresource="status")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueWorld]:
    with queue_world(tmp_path_factory.mktemp("manager")) as one:
        yield one


@pytest.fixture
def manager(shared: QueueWorld, run: Run, tmp_path: Path) -> Manager:
    one = Manager(shared.client, shared.resource.version, shared.server, tmp_path)
    one.run = run
    return one


@pytest.fixture
def far(manager: Manager) -> Manager:
    """With a job `far` that runs on worker-1."""
    manager.admits(manager.submit_far("far", checkpoint=CHECKPOINT), *RUNS, clusterName="worker-1")
    manager.copies("far", condition("Running", message="it runs"), replicaStatuses={"Worker": {"active": 2}})
    return manager


@pytest.mark.parametrize("options", [(), ("--follow",), ("--all-replicas",)])
def test_logs_names_the_cluster_that_has_them(far: Manager, options: tuple[str, ...]) -> None:
    said = far.tell("logs", "far", *options, code=1)
    assert "is MultiKueue's: it runs on cluster worker-1, and its pods and their logs are there" in said.err
    assert "with --kubeconfig or --context for that cluster" in said.err


def test_logs_of_a_job_that_waits_or_has_ended(manager: Manager) -> None:
    job = manager.submit_far("far")
    assert "on the cluster that is chosen for it" in manager.tell("logs", "far", "-f", code=1).err
    manager.admits(job, *RUNS, clusterName="worker-1")
    manager.copies("far", condition("Failed", message="it failed"))
    said = manager.tell("logs", "far", code=1).err
    assert "it ran on cluster worker-1, and its pods went when it had ended; a log archive there may have" in said


def test_stacks_names_the_cluster_and_a_report_tells_where_to_ask(far: Manager) -> None:
    assert "it runs on cluster worker-1" in far.tell("stacks", "far", code=1).err
    far.copies("far", condition("Failed", message="it failed"))
    said = far.tell("report", "far", code=0).out
    assert "it failed" in said
    assert "it ran on cluster worker-1" in said


def test_describe_tells_of_replicas_elsewhere_and_what_their_job_lacks(far: Manager) -> None:
    said = far.tell("describe", "far", code=0).out
    assert "on cluster worker-1, as MultiKueue tells: Worker: 2 active, 0 succeeded, 0 failed" in said
    assert "No pod" not in said
    assert "Left behind:  spec.checkpoint: MultiKueue doesn't copy this to the other cluster" in said


def test_get_tells_where_a_job_runs_and_no_numbers_that_it_can_not_know(far: Manager) -> None:
    header, row = (line.split() for line in far.tell("get", code=0).out.splitlines())
    cells = dict(zip(header, row, strict=False))
    assert (cells["STATE"], cells["READY"], cells["RESTARTS"]) == ("Running", "-", "-")
    assert row[-2:] == ["on", "worker-1"]


def test_suspending_what_runs_elsewhere_names_what_does_stop_it(far: Manager) -> None:
    said = far.tell("suspend", "far", code=1).err
    assert f"on cluster worker-1. To stop it, delete it: tfoperator delete far -n {far.namespace}" in said


def test_submit_warns_of_what_multikueue_leaves_behind(manager: Manager, tmp_path: Path) -> None:
    manager.submit_far("pattern", checkpoint=CHECKPOINT)
    made = manager.client.get(TFJOBS, manager.namespace, "pattern", decode)
    made["metadata"] = {"name": "again"}
    made |= {"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind}
    file = tmp_path / "job.json"
    file.write_text(json.dumps(made))
    said = manager.tell("submit", str(file), code=0).err
    assert said.count("spec.checkpoint: is not copied to the cluster where MultiKueue has the job run") == 1
    validated = manager.run("validate", str(file), code=0).out
    assert "warning: spec.checkpoint: is not copied" in validated
