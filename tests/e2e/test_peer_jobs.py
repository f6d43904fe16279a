"""What is left of a job that has ended, where the Go operator leaves something else."""

from __future__ import annotations

import pytest

from tests.support.operated import Operated

pytestmark = pytest.mark.controlplane


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
