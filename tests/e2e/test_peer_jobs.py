"""The Go operator's job scenarios, replayed: templates, clean-up, deadline, back-off limit, time to live."""

from __future__ import annotations

import pytest

from tests.support.cluster import tfjob
from tests.support.eventually import eventually
from tests.support.operated import HOLD, JobOnCluster, Operated, parse_time

pytestmark = pytest.mark.controlplane

ALL = ("ps-0", "ps-1", "worker-0", "worker-1", "worker-2", "worker-3")


def test_the_templates_labels_and_annotations_are_copied_to_the_pods(operated: Operated) -> None:
    manifest = tfjob("copied", PS=1, Worker=1)
    for kind, replica in manifest["spec"]["tfReplicaSpecs"].items():
        metadata = {"labels": {"label": kind}, "annotations": {"annotation": f"{kind}'s"}}
        replica["template"] = {**replica["template"], "metadata": metadata}
    pods = operated.submit(manifest).wait_pods("ps-0", "worker-0")
    for replica, kind in (("ps-0", "PS"), ("worker-0", "Worker")):
        metadata = pods[replica]["metadata"]
        assert metadata["labels"]["label"] == kind
        assert metadata["labels"]["training.kubeflow.org/job-name"] == "copied"
        assert metadata["annotations"]["annotation"] == f"{kind}'s"


@pytest.mark.parametrize(
    ("policy", "others", "left"),
    [
        # The Go operator's tests call a job whose pods all run finished; here worker 0 has to finish for that.
        ("All", "Running", ()),
        ("Running", "Running", ("worker-0",)),
        ("Running", "Pending", ("worker-0",)),
        ("Running", "Succeeded", ALL),
        ("None", "Succeeded", ALL),
        ("None", "Running", ALL),
    ],
)
def test_what_the_clean_pod_policy_leaves(operated: Operated, policy: str, others: str, left: tuple[str, ...]) -> None:
    job = operated.job(f"clean-{policy}-{others}".lower(), run_policy={"cleanPodPolicy": policy}, PS=2, Worker=4)
    job.wait_pods(*ALL)
    for replica in ALL:
        if replica != "worker-0" and others != "Pending":
            job.play(others, replica)
    job.play("Succeeded", "worker-0")
    job.wait("Succeeded")
    job.wait_pods(*left)
    job.wait_services(*left)
    operated.settle()
    assert set(job.pods()) == set(job.services()) == set(left)


def test_a_failure_under_none_stops_what_runs_and_keeps_what_has_finished_which_differs(operated: Operated) -> None:
    # The Go operator leaves parameter servers of a failed job running for ever.
    job = operated.running("clean-failed", PS=1, Worker=2)
    job.play("Failed", "worker-1", exit_code=1)
    job.wait("Failed")
    job.wait_pods("worker-1")
    job.wait_services("worker-1")


def test_without_a_deadline_a_job_runs_on(operated: Operated) -> None:
    job = operated.running("endless", Worker=1)
    operated.settle()
    assert job.state() == "Running"


def test_a_job_that_is_active_for_longer_than_its_deadline_fails_and_is_cleaned_up(operated: Operated) -> None:
    job = operated.running("deadline", run_policy={"activeDeadlineSeconds": 2}, PS=2, Worker=4)
    failed = job.wait("Failed")
    assert failed["reason"] == "TFJobFailed"
    assert "active longer than specified deadline" in failed["message"]
    status = job.status()
    assert 2 <= parse_time(status["completionTime"]) - parse_time(status["startTime"]) <= 3
    job.wait_pods()
    job.wait_services()
    job.wait_reasons("TFJobFailed", "SuccessfulDeletePod")


def test_four_restarts_in_place_reach_a_back_off_limit_of_four(operated: Operated) -> None:
    job = operated.running("backoff", restart_policy="OnFailure", run_policy={"backoffLimit": 4}, Worker=4)
    workers = [f"worker-{i}" for i in range(4)]
    job.play("Running", *workers[:3], restarts=1)
    eventually(lambda: job.restarts() == 3, within=20, every=0.05, what="three restarts are counted")
    assert job.state() == "Running"
    job.play("Running", workers[3], restarts=1)
    failed = job.wait("Failed")
    assert "reached the specified backoff limit" in failed["message"]
    job.wait_pods()
    job.wait_services()


def with_ttl(operated: Operated, name: str) -> JobOnCluster:
    manifest = tfjob(name, run_policy={"ttlSecondsAfterFinished": 3}, PS=2, Worker=4)
    manifest["metadata"]["finalizers"] = [HOLD]
    job = operated.submit(manifest)
    job.wait_pods(*ALL)
    return job


def test_three_seconds_after_its_success_or_its_failure_a_job_is_deleted(operated: Operated) -> None:
    good, bad = with_ttl(operated, "ttl-good"), with_ttl(operated, "ttl-bad")
    good.play("Succeeded", *reversed(ALL))
    bad.play("Failed", "worker-0")
    for job, end in ((good, "Succeeded"), (bad, "Failed")):
        job.wait(end)
        completed = parse_time(job.status()["completionTime"])
        assert 3 <= job.wait_deletion_time() - completed <= 4
    for job in (good, bad):
        job.wait_pods()
        assert job.is_gone()
