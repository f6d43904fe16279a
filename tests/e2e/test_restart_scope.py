"""`restartScope: Job` on a real API server: all replicas restart together, counted once."""

from __future__ import annotations

import pytest

from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster, Operated

pytestmark = pytest.mark.controlplane

WORKERS = ("worker-0", "worker-1")
NUMBER = "training.kubeflow.org/job-restarts"


def running(operated: Operated, name: str, policy: str = "OnFailure", **run_policy: object) -> JobOnCluster:
    run_policy = {"restartScope": "Job", **run_policy}
    job = operated.running(name, restart_policy=policy, run_policy=run_policy, Worker=2)
    job.bind(*WORKERS)  # from now on a deleted pod is there until its kubelet has ended it
    return job


def restarts(job: JobOnCluster) -> tuple[int, int]:
    status = job.status()
    return status.get("restarts", 0), status.get("jobRestarts", 0)


def wait_terminating(job: JobOnCluster, replica: str) -> None:
    eventually(lambda: job.pods()[replica]["metadata"].get("deletionTimestamp"), every=0.05, what=f"{replica} stops")


def numbers(job: JobOnCluster) -> set[str | None]:
    return {(pod["metadata"].get("annotations") or {}).get(NUMBER) for pod in job.pods().values()}


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "ExitCode"])
def test_all_old_pods_are_gone_before_the_first_new_one(operated: Operated, policy: str) -> None:
    job = running(operated, f"together-{policy.lower()}", policy)
    before = {job.pod_uid(worker) for worker in WORKERS}
    job.play("Failed", "worker-1", reason="Evicted")
    wait_terminating(job, "worker-0")
    assert restarts(job) == (1, 1)
    message = job.wait("Restarting")["message"]
    assert message == f"job {job.name} is restarting all its replicas because of Worker-1 (Evicted)."
    job.wait_pods("worker-0")  # what was evicted goes after its delay
    job.play("Failed", "worker-0", exit_code=1)  # what it makes of SIGTERM, or of the loss of the other
    operated.settle()
    assert set(job.pods()) == {"worker-0"}
    job.cluster.end_pod(job.pod_name("worker-0"))
    job.wait_pods(*WORKERS)
    assert not before & {job.pod_uid(worker) for worker in WORKERS}
    assert numbers(job) == {"1"}
    job.play("Running", *WORKERS, leads_to="Running")
    assert restarts(job) == (1, 1)
    assert "Failed" not in job.conditions()
