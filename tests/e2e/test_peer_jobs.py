"""The Go operator's job scenarios, replayed: templates, clean-up, deadline, back-off limit, time to live."""

from __future__ import annotations

import math
import time

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
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    job.wait_pods(*left)
    job.wait_services(*left)
    operated.settle()
    assert set(job.pods()) == set(job.services()) == set(left)


def test_a_failure_under_none_touches_nothing(operated: Operated) -> None:
    job = operated.running("clean-failed", run_policy={"cleanPodPolicy": "None"}, PS=1, Worker=2)
    job.play("Failed", "worker-1", exit_code=1, leads_to="Failed")
    operated.settle()
    assert set(job.wait_stopped()) == set(job.services()) == {"ps-0", "worker-0", "worker-1"}


def test_a_failure_without_a_policy_stops_what_runs_and_deletes_nothing_which_differs(operated: Operated) -> None:
    # The Go operator leaves parameter servers of a failed job running for ever.
    job = operated.running("let-go", Chief=1, PS=1, Worker=2)
    job.play("Failed", "worker-1", exit_code=1, leads_to="Failed")
    job.wait_reasons("SuccessfulStopPod")
    stopped = ("chief-0", "ps-0", "worker-0")
    pods = job.wait_stopped(*stopped)
    assert set(pods) == set(job.services()) == {*stopped, "worker-1"}
    told = job.status()
    for replica in stopped:
        annotations = pods[replica]["metadata"]["annotations"]
        assert annotations["training.kubeflow.org/stopped"] == "job-failed"
        job.play("Failed", replica, exit_code=143, reason="DeadlineExceeded")
    versions = {replica: pod["metadata"]["resourceVersion"] for replica, pod in job.pods().items()}
    operated.restart_operator()
    operated.settle()
    assert {replica: pod["metadata"]["resourceVersion"] for replica, pod in job.pods().items()} == versions
    assert job.status() == told
    [event] = [event for event in job.events() if event["reason"] == "SuccessfulStopPod"]
    assert event.get("count", 1) == 1


def test_after_a_success_workers_finish_in_peace_and_then_the_parameter_servers_are_stopped(operated: Operated) -> None:
    job = operated.job("peace", PS=1, Worker=3, Evaluator=1)
    job.wait_pods("ps-0", "worker-0", "worker-1", "worker-2", "evaluator-0")
    job.play("Running", "ps-0", "worker-0", "worker-1", "evaluator-0")
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    job.wait_pods("ps-0", "worker-0", "worker-1", "evaluator-0")  # worker-2 has no node: it would run one day
    job.play("Succeeded", "evaluator-0")
    operated.settle()
    job.wait_stopped()
    operated.restart_operator(meanwhile=lambda: job.play("Failed", "worker-1", exit_code=1))
    pods = job.wait_stopped("ps-0")
    assert pods["ps-0"]["metadata"]["annotations"]["training.kubeflow.org/stopped"] == "job-succeeded"
    assert set(pods) == {"ps-0", "worker-0", "worker-1", "evaluator-0"}
    assert set(job.services()) == {"ps-0", "worker-0", "worker-1", "worker-2", "evaluator-0"}
    assert job.state() == "Succeeded"


def test_without_a_deadline_a_job_runs_on(operated: Operated) -> None:
    job = operated.running("endless", Worker=1)
    operated.settle()
    assert job.state() == "Running"


def test_a_job_that_is_active_for_longer_than_its_deadline_fails_and_is_stopped(operated: Operated) -> None:
    job = operated.running("deadline", PS=2, Worker=4)
    started = parse_time(job.status()["startTime"])
    deadline = (
        math.ceil(time.time() - started) + 2
    )  # not counted before all run, which may take longer than two seconds
    job.patch_spec(runPolicy={"activeDeadlineSeconds": deadline})
    failed = job.wait("Failed", within=deadline + 60)
    assert failed["reason"] == "TFJobFailed"
    assert "active longer than specified deadline" in failed["message"]
    assert parse_time(job.status()["completionTime"]) - started >= deadline
    assert set(job.wait_stopped(*ALL)) == set(ALL)
    job.wait_reasons("TFJobFailed", "SuccessfulStopPod")
    assert {event["type"] for event in job.events() if event["reason"] == "TFJobFailed"} == {"Warning"}


def test_four_restarts_in_place_exceed_a_back_off_limit_of_three(operated: Operated) -> None:
    job = operated.running("backoff", restart_policy="OnFailure", run_policy={"backoffLimit": 3}, Worker=4)
    workers = [f"worker-{i}" for i in range(4)]
    job.play("Running", *workers[:3], restarts=1)
    eventually(lambda: job.restarts() == 3, every=0.05, what="three restarts are counted")
    assert job.state() == "Running"
    job.play("Running", workers[3], restarts=1)
    failed = job.wait("Failed")
    assert "reached the specified backoff limit" in failed["message"]
    job.wait_stopped(*workers)


def with_ttl(operated: Operated, name: str) -> JobOnCluster:
    manifest = tfjob(name, run_policy={"ttlSecondsAfterFinished": 3}, PS=2, Worker=4)
    manifest["metadata"]["finalizers"] = [HOLD]
    job = operated.submit(manifest)
    job.wait_pods(*ALL)
    return job


def test_three_seconds_after_its_success_or_its_failure_a_job_is_deleted(operated: Operated) -> None:
    good, bad = with_ttl(operated, "ttl-good"), with_ttl(operated, "ttl-bad")
    good.play("Succeeded", "ps-0", "ps-1", "worker-3", "worker-2", "worker-1", "worker-0")  # the last one ends the job
    bad.play("Failed", "worker-0")
    for job, end in ((good, "Succeeded"), (bad, "Failed")):
        job.wait(end)
        completed = parse_time(job.status()["completionTime"])
        assert job.wait_deletion_time() - completed >= 3
    for job in (good, bad):
        job.wait_pods()
        assert job.is_gone()
