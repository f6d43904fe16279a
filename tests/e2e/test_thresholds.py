"""How many workers have to succeed and how many may fail (kubeflow/trainer #1188, #1175), on a real API server."""

from __future__ import annotations

import pytest

from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster, Operated

pytestmark = pytest.mark.controlplane

STOPS = {"cleanPodPolicy": "Running"}


def remembers(job: JobOnCluster, name: str, indexes: str) -> None:
    eventually(
        lambda: job.status()["replicaStatuses"]["Worker"].get(name) == indexes,
        every=0.05,
        what=f"{name} {indexes} of {job.name}",
    )


def test_1188_four_of_five_workers_are_enough_and_one_may_fail(operated: Operated) -> None:
    share = {"minSucceededWorkers": "80%", "maxFailedWorkers": "20%"}
    job = operated.running("enough", spec=share, run_policy=STOPS, PS=1, Worker=5)
    job.play("Failed", "worker-0", exit_code=1)
    remembers(job, "failedIndexes", "0")
    job.play("Succeeded", "worker-1", "worker-2", "worker-3")
    remembers(job, "completedIndexes", "1-3")
    operated.settle()
    assert job.state() == "Running"
    job.play("Succeeded", "worker-4", leads_to="Succeeded")
    assert job.conditions()["Running"]["status"] == "False"
    assert "Failed" not in job.conditions()
    job.wait_pods("worker-0", "worker-1", "worker-2", "worker-3", "worker-4")  # the server is stopped
    job.wait_reasons("ReplicaFailed", "ExitedWithCode", "TFJobSucceeded")
