"""The Go operator's scenarios of jobs that others start and stop, or manage altogether, replayed."""

from __future__ import annotations

import pytest

from tests.support.eventually import eventually
from tests.support.operated import Operated, parse_time, wait_until_clock

pytestmark = pytest.mark.controlplane


def test_a_job_that_is_created_suspended_makes_nothing_until_it_is_resumed(operated: Operated) -> None:
    job = operated.job("asleep", run_policy={"suspend": True}, PS=1, Worker=2)
    suspended = job.wait("Suspended")
    assert (suspended["reason"], job.state()) == ("TFJobSuspended", "Suspended")
    operated.settle()
    assert not job.pods()
    assert not job.services()
    assert "startTime" not in job.status()

    job.suspend(False)
    job.wait_pods("ps-0", "worker-0", "worker-1")
    job.play("Running", "ps-0", "worker-0", "worker-1", leads_to="Running")
    resumed = job.conditions()["Suspended"]
    assert (resumed["status"], resumed["reason"]) == ("False", "TFJobResumed")
    assert job.status()["startTime"] >= suspended["lastTransitionTime"]
    job.wait_reasons("TFJobSuspended", "TFJobResumed")


def test_suspending_takes_pods_and_services_away_and_resuming_starts_anew(operated: Operated) -> None:
    job = operated.running("nap", restart_policy="OnFailure", Worker=2)
    started = job.status()["startTime"]
    job.suspend()
    job.wait("Suspended")
    job.wait_pods()
    job.wait_services()
    assert job.conditions()["Running"]["status"] == "False"
    eventually(
        lambda: job.status()["replicaStatuses"]["Worker"].get("active", 0) == 0, every=0.05, what="none is active"
    )

    wait_until_clock(parse_time(started) + 1)
    job.suspend(False)
    job.wait_pods("worker-0", "worker-1")
    job.play("Running", "worker-0", "worker-1", leads_to="Running")
    assert job.status()["startTime"] > started, "the deadline counts from the resumption"
    assert job.restarts() == 0, "what we took away ourselves is no restart"
    assert not job.cluster.has_condition("nap", "Suspended")


def test_the_pods_of_a_suspended_job_are_waited_for_before_new_ones_are_made(operated: Operated) -> None:
    job = operated.running("slow", Worker=1)
    first = job.pod_uid("worker-0")
    job.bind("worker-0")
    job.suspend()
    job.wait("Suspended")
    job.suspend(False)
    operated.settle()
    assert job.pod_uid("worker-0") == first, "it still terminates, and has the name"
    job.cluster.end_pod("slow-worker-0")
    job.wait_successor("worker-0", of=first)
    assert not job.cluster.has_condition("slow", "Failed")


def test_a_job_that_is_suspended_and_resumed_while_there_is_no_operator_goes_on_where_it_was(
    operated: Operated,
) -> None:
    policies = {"successPolicy": "AllWorkers", "maxFailedWorkers": 1}
    job = operated.running("asleep-alone", spec=policies, restart_policy="ExitCode", Worker=4)
    job.fail("worker-2", exit_code=137)
    job.play("Succeeded", "worker-1")
    job.play("Failed", "worker-3", exit_code=1)
    kept = {"completedIndexes": "1", "failedIndexes": "3", "restarts": 1}

    def remembers() -> bool:
        worker = job.status()["replicaStatuses"]["Worker"]
        assert {name: worker.get(name) for name in kept} == kept
        return True

    eventually(remembers, every=0.05, what="what has ended is recorded")
    operated.restart_operator(meanwhile=job.suspend)
    job.wait("Suspended")
    job.wait_pods()
    assert remembers()
    operated.restart_operator(meanwhile=lambda: job.suspend(False))
    job.wait_pods("worker-0", "worker-2")
    job.play("Succeeded", "worker-0", "worker-2", leads_to="Succeeded")
