"""The output of commands about jobs that MultiKueue has run on another cluster."""

import json
from pathlib import Path

import pytest

from tests.support.cluster import Json, decode
from tests.support.kueue_objects import condition
from tests.unit.cli.commands.jobs.conftest import Queues
from tfoperator.api.v1.types import TFJOBS

RUNS = (condition("QuotaReserved"), condition("Admitted"))
CHECKPOINT = {"volume": {"emptyDir": {}}, "mountPath": "/ckpt"}


def copies(queues: Queues, name: str, *conditions: Json, **status: object) -> None:
    """Write here, as Kueue does, the state of the job there."""
    change = {"status": {"conditions": list(conditions), **status}}
    queues.client.patch(TFJOBS, queues.namespace, name, change, decode, subresource="status")


@pytest.fixture
def far(queues: Queues) -> Queues:
    """With a job `far` that runs on worker-1."""
    queues.admits(queues.submit_far("far", checkpoint=CHECKPOINT), *RUNS, clusterName="worker-1")
    copies(queues, "far", condition("Running", message="it runs"), replicaStatuses={"Worker": {"active": 2}})
    return queues


def test_logs_names_the_cluster_that_has_them_will_have_or_has_had_them(queues: Queues) -> None:
    job = queues.submit_far("far")
    assert "on the cluster that it chooses for the job" in queues.tell("logs", "far", "-f", code=1).err
    queues.admits(job, *RUNS, clusterName="worker-1")
    for options in ((), ("--follow",), ("--all-replicas",)):
        result = queues.tell("logs", "far", *options, code=1)
        assert "is managed by MultiKueue: it runs on cluster worker-1, where its pods and their logs are" in result.err
        assert "with --kubeconfig or --context of that cluster" in result.err
    copies(queues, "far", condition("Failed", message="it failed"))
    text = queues.tell("logs", "far", code=1).err
    assert "it ran on cluster worker-1, where its pods were deleted after its end; a log archive there may have" in text


def test_stacks_and_suspend_name_the_cluster_and_a_report_tells_where_to_ask(far: Queues) -> None:
    assert "it runs on cluster worker-1" in far.tell("stacks", "far", code=1).err
    output = far.tell("suspend", "far", code=1).err
    assert "on cluster worker-1" in output
    assert "Suspend the job through Kueue: kubectl patch workloads.kueue.x-k8s.io tfjob-far -n" in output
    copies(far, "far", condition("Failed", message="it failed"))
    output = far.tell("report", "far", code=0).out
    assert "it failed" in output
    assert "it ran on cluster worker-1" in output


def test_what_is_known_of_replicas_elsewhere_is_told_and_what_their_job_lacks(far: Queues) -> None:
    output = far.tell("describe", "far", code=0).out
    assert "on cluster worker-1, from MultiKueue: Worker: 2 active, 0 succeeded, 0 failed" in output
    assert "No pod" not in output
    assert "Left behind:  spec.checkpoint: MultiKueue does not copy these fields to the other cluster" in output
    header, row = (line.split() for line in far.tell("get", code=0).out.splitlines())
    cells = dict(zip(header, row, strict=False))
    assert (cells["STATE"], cells["READY"], cells["RESTARTS"]) == ("Running", "-", "-")
    assert row[-2:] == ["on", "worker-1"]


def test_submit_warns_of_what_multikueue_leaves_behind(queues: Queues, tmp_path: Path) -> None:
    queues.submit_far("pattern", checkpoint=CHECKPOINT)
    made = queues.client.get(TFJOBS, queues.namespace, "pattern", decode)
    made["metadata"] = {"name": "again"}
    made |= {"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind}
    file = tmp_path / "job.json"
    file.write_text(json.dumps(made))
    output = queues.tell("submit", str(file), code=0).err
    lost = "spec.checkpoint: has no effect: MultiKueue does not copy this field to the cluster in which the job runs"
    assert output.count(lost) == 1
    validated = queues.run("validate", str(file), code=0).out
    assert "warning: spec.checkpoint: has no effect: MultiKueue" in validated
