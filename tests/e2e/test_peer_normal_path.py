"""The Go operator's normal path, replayed: from created over pending and running to succeeded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster, Operated

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
