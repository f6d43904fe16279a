"""What the Go operator's users complain about: deadlines, times to live, and what happens to jobs that have ended."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.cluster import Json, decode, tfjob
from tests.support.eventually import eventually
from tests.support.operated import HOLD, JobOnCluster, Operated, parse_time
from tfoperator.api.v1.types import TFJOBS

pytestmark = pytest.mark.controlplane

HOUR = 3600
"""Seconds. Much longer than a test waits: an operator that counts them from its own start is never in time."""


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    """No comparison with the live state in time: what is in time here is so by the job's own timer."""
    return ("--restart-delay-base=100ms", "--resync-period=5m")


def set_back(job: JobOnCluster, field: str) -> float:
    """Let the time in the job's status be an hour ago, while there is no operator; returns it in seconds."""
    moment = (datetime.now(UTC) - timedelta(seconds=HOUR)).replace(microsecond=0)
    status = {"status": {field: moment.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    job.cluster.client.patch(TFJOBS, job.cluster.namespace, job.name, status, decode, subresource="status")
    return moment.timestamp()


def active_seconds(job: JobOnCluster) -> float:
    status = job.status()
    return parse_time(status["completionTime"]) - parse_time(status["startTime"])


# #3358: the deadline never fires.


def test_3358_a_deadline_fires_though_nothing_else_happens(operated: Operated) -> None:
    job = operated.running("silent", Worker=1)
    # Chosen only now, since nobody knows how long it takes until the job runs.
    seconds = math.ceil(time.time() - parse_time(job.status()["startTime"])) + 2
    job.patch_spec(runPolicy={"activeDeadlineSeconds": seconds})
    failed = job.wait("Failed")
    assert "active longer than specified deadline" in failed["message"]
    assert active_seconds(job) >= seconds


def test_3358_a_deadline_holds_across_a_restart_of_the_operator(operated: Operated) -> None:
    job = operated.running("across", run_policy={"activeDeadlineSeconds": HOUR + 5}, Worker=1)
    operated.restart_operator(meanwhile=lambda: set_back(job, "startTime"))
    job.wait("Failed")
    assert active_seconds(job) >= HOUR + 5


# #1186, #2454: a finished pod that is deleted is run again.


def test_1186_a_finished_replica_is_not_run_again_when_its_pod_is_deleted(operated: Operated) -> None:
    job = operated.running("finished", restart_policy="OnFailure", spec={"successPolicy": "AllWorkers"}, Worker=2)
    job.play("Succeeded", "worker-1")
    eventually(lambda: job.status()["replicaStatuses"]["Worker"].get("completedIndexes") == "1", every=0.05)
    job.delete_pod("worker-1")
    operated.settle()
    assert set(job.pods()) == {"worker-0"}
    operated.restart_operator()
    operated.settle()
    assert set(job.pods()) == {"worker-0"}
    job.play("Succeeded", "worker-0", leads_to="Succeeded")


def test_2454_a_finished_job_is_not_run_again_when_its_pods_are_deleted(operated: Operated) -> None:
    job = operated.running("over", restart_policy="OnFailure", Worker=1)
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    job.delete_pod("worker-0")
    operated.settle()
    operated.restart_operator()
    operated.settle()
    assert not job.pods()
    assert job.state() == "Succeeded"


# #1533: the time to live ends hours late.


def held(name: str, ttl: int) -> Json:
    manifest = tfjob(name, run_policy={"ttlSecondsAfterFinished": ttl}, Worker=1)
    manifest["metadata"]["finalizers"] = [HOLD]
    return manifest


def finished(operated: Operated, name: str, ttl: int) -> tuple[JobOnCluster, float]:
    """A job that has succeeded, and when."""
    job = operated.submit(held(name, ttl))
    job.wait_pods("worker-0")
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    return job, parse_time(job.status()["completionTime"])


def test_1533_a_finished_job_goes_after_its_time_to_live(operated: Operated) -> None:
    job, completed = finished(operated, "expires", 2)
    assert job.wait_deletion_time() - completed >= 2


def test_1533_the_time_to_live_holds_across_a_restart_of_the_operator(operated: Operated) -> None:
    job, _ = finished(operated, "expires-later", HOUR + 5)
    completed: list[float] = []
    operated.restart_operator(meanwhile=lambda: completed.append(set_back(job, "completionTime")))
    assert job.wait_deletion_time() - completed[0] >= HOUR + 5


# #1191: services survive the end of their job.


@pytest.mark.parametrize("policy", ["All", "Running"])
def test_1191_services_go_though_their_pods_are_gone_already(operated: Operated, policy: str) -> None:
    job = operated.running(f"leftover-{policy.lower()}", run_policy={"cleanPodPolicy": policy}, Worker=2)

    def end() -> None:
        job.play("Succeeded", "worker-0")
        job.delete_pod("worker-1")

    operated.restart_operator(meanwhile=end)
    job.wait("Succeeded")
    left = {"worker-0"} if policy == "Running" else set()
    job.wait_services(*left)
    job.wait_pods(*left)


# Defects found in its code, see the reference: two verdicts, no completion time, jobs counted twice.


def test_a_failure_amid_a_restart_has_a_completion_time_and_its_time_to_live_ends(operated: Operated) -> None:
    manifest = tfjob("both", restart_policy="ExitCode", run_policy={"ttlSecondsAfterFinished": 1}, PS=1, Worker=1)
    manifest["metadata"]["finalizers"] = [HOLD]
    job = operated.submit(manifest)
    job.wait_pods("ps-0", "worker-0")

    def end() -> None:
        job.play("Failed", "ps-0", exit_code=137)
        job.play("Failed", "worker-0", exit_code=1)

    operated.restart_operator(meanwhile=end)
    job.wait("Failed")
    completed = parse_time(job.status()["completionTime"])
    assert job.wait_deletion_time() - completed >= 1


def test_a_restart_of_the_operator_counts_no_job_again(operated: Operated) -> None:
    metric = (
        f'training_operator_jobs_created_total{{framework="tensorflow",job_namespace="{operated.cluster.namespace}"}}'
    )
    job = operated.running("counted", Worker=1)
    operated.settle()  # its own job, too, is to be older than the operator that counts
    operated.restart_operator()
    operated.settle()
    before = operated.operator.metrics().get(metric, 0)
    assert before == 0, "every job here is older than this operator"
    operated.job("counted-anew", Worker=1).wait("Created")
    eventually(lambda: operated.operator.metrics().get(metric) == 1, what="a new one is counted")
    assert job.state() == "Running"
