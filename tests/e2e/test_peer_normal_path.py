"""The Go operator's normal path, replayed: from created over pending and running to succeeded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster import tfjob
from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster, Operated
from tfoperator.sdk import TFJobClient

pytestmark = pytest.mark.controlplane

BIG = ("ps-0", "ps-1", "worker-0", "worker-1", "worker-2", "worker-3")
SMALL = ("ps-0", "worker-0", "worker-1")


def counts(job: JobOnCluster) -> dict[str, tuple[int, int, int]]:
    """(active, succeeded, failed) of each replica type."""
    statuses: dict[str, Any] = job.status().get("replicaStatuses") or {}
    return {
        kind: (one.get("active", 0), one.get("succeeded", 0), one.get("failed", 0)) for kind, one in statuses.items()
    }


def wait_counts(job: JobOnCluster, **expected: tuple[int, int, int]) -> None:
    def reached() -> bool:
        assert counts(job) == expected, counts(job)
        return True

    eventually(reached, every=0.05, what=f"the counts of {job.name}")


def test_a_local_job_has_one_pod_and_one_service(operated: Operated) -> None:
    job = operated.job("local", Worker=1)
    [pod] = job.wait_pods("worker-0").values()
    job.wait("Created")
    job.wait_services("worker-0")
    [service] = job.services().values()
    assert pod["metadata"]["name"] == service["metadata"]["name"] == "local-worker-0"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == service["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert [(p["name"], p["port"]) for p in service["spec"]["ports"]] == [("tfjob-port", 2222)]
    [port] = job.container("worker-0")["ports"]
    assert (port["name"], port["containerPort"]) == ("tfjob-port", 2222)


def test_four_workers_and_two_servers_from_created_to_succeeded(operated: Operated) -> None:
    job = operated.job("big", PS=2, Worker=4)
    job.wait_pods(*BIG)
    job.wait("Created")
    job.wait_services(*BIG)
    wait_counts(job, PS=(0, 0, 0), Worker=(0, 0, 0))
    assert (job.state(), job.status()["phase"]) == ("Created", "Pending")

    job.play("Running", *BIG)
    wait_counts(job, PS=(2, 0, 0), Worker=(4, 0, 0))
    assert (job.state(), job.status()["phase"], job.status()["ready"]) == ("Running", "Running", "6/6")

    job.play("Succeeded", *reversed(BIG), leads_to="Succeeded")
    operated.settle()
    assert counts(job)["Worker"] == (0, 4, 0)
    assert set(job.pods()) == set(job.services()) == set(BIG), "cleanPodPolicy None leaves everything"


def test_pending_then_one_running_then_one_succeeded(operated: Operated) -> None:
    job = operated.job("mixed", spec={"successPolicy": "AllWorkers"}, PS=1, Worker=2)
    job.wait_pods(*SMALL)
    wait_counts(job, PS=(0, 0, 0), Worker=(0, 0, 0))
    job.play("Running", "worker-1")
    wait_counts(job, PS=(0, 0, 0), Worker=(1, 0, 0))
    assert job.state() == "Running", "one worker that runs makes a running job, as in the Go operator"
    job.play("Running", "ps-0")
    job.play("Succeeded", "worker-0")
    wait_counts(job, PS=(1, 0, 0), Worker=(1, 1, 0))
    assert job.state() == "Running"
    job.play("Succeeded", "worker-1", leads_to="Succeeded")


def test_what_is_said_of_a_job_is_said_in_the_go_operators_words(operated: Operated) -> None:
    job = operated.running("words", Worker=2)
    where = f"{operated.cluster.namespace}/words"
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    conditions = job.status()["conditions"]
    said = {c["type"]: (c["status"], c["reason"]) for c in conditions}
    assert said["Created"] == ("True", "TFJobCreated")
    assert said["Running"] == ("False", "TFJobSucceeded")
    assert said["Succeeded"] == ("True", "TFJobSucceeded")
    assert conditions[-1]["message"] == f"TFJob {where} successfully completed."
    assert job.conditions()["Created"]["message"] == "TFJob words is created."
    assert job.status()["completionTime"] >= job.status()["startTime"]
    job.wait_reasons("SuccessfulCreatePod", "TFJobSucceeded")
    assert {event["source"]["component"] for event in job.events()} == {"tfjob-controller"}


def test_the_names_and_labels_are_those_that_the_go_operators_users_select_by(operated: Operated) -> None:
    job = operated.job("labels", PS=1, Worker=2)
    pods = job.wait_pods(*SMALL)
    prefix = "training.kubeflow.org/"
    for replica, pod in pods.items():
        kind, _, index = replica.partition("-")
        labels = {k.removeprefix(prefix): v for k, v in pod["metadata"]["labels"].items()}
        role = labels.pop("job-role", None)
        assert labels == {
            "operator-name": "tfjob-controller",
            "job-name": "labels",
            "replica-type": kind,
            "replica-index": index,
        }
        assert role == ("master" if replica == "worker-0" else None)
        [owner] = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("TFJob", "labels", job.uid)
        assert owner["controller"] is owner["blockOwnerDeletion"] is True


def test_the_sdk_follows_one_worker_to_success(operated: Operated) -> None:
    cluster = operated.cluster
    sdk = TFJobClient(namespace=cluster.namespace, client=cluster.client)
    sdk.create_job(tfjob("sdk", Worker=1))
    job = JobOnCluster(cluster, cluster.job("sdk"))
    job.wait_pods("worker-0")
    job.play("Running", "worker-0")
    sdk.wait_for_job_conditions("sdk", expected_conditions={"Running"}, wait_timeout=60)
    job.play("Succeeded", "worker-0")
    sdk.wait_for_job_conditions("sdk", wait_timeout=60)
    assert sdk.is_job_succeeded("sdk")
