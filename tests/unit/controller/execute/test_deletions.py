from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tests.support.fake_api import Call, api_error
from tests.support.plan_options import controller_options, plan_options
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.kube.protocol.resources import PODS


def test_a_delete_carries_the_uid_and_a_vanished_object_is_no_error(harness: Harness) -> None:
    harness.submit_and_sync(Worker=2)
    uids = {pod["metadata"]["uid"] for pod in harness.api.objects(PODS)}
    harness.suspend()

    def vanish(call: Call) -> None:
        # Its deletion is seen before we are answered.
        if call.verb == "delete" and call.name == "job-worker-1" and "job-worker-1" in harness.api.names(PODS):
            harness.api.remove(PODS, "ns", "job-worker-1")
            eventually(lambda: len(harness.informers.pods.lister.list()) < 2, what="the cache shows it")

    harness.api.react(vanish)
    harness.controller.sync_tfjob("ns/job")
    deletes = [call for call in harness.api.calls if call.verb == "delete" and call.resource == "pods"]
    assert {call.body["uid"] for call in deletes} == uids
    assert harness.queue.num_requeues("ns/job") == 0
    # The pod that was gone already never gets an event.
    owner = harness.api.objects(TFJOBS)[0]["metadata"]["uid"]
    eventually(lambda: not harness.expectations.outstanding(owner), what="nothing more is expected")


SUSPENDED, RESUMED = ({"runPolicy": {"suspend": suspend}} for suspend in (True, False))
NO_WORKER, TWO_WORKERS = ({"tfReplicaSpecs": {"Worker": {"replicas": number}}} for number in (0, 2))


@pytest.mark.parametrize(
    ("error", "away", "back"),
    [
        (None, SUSPENDED, RESUMED),
        (None, NO_WORKER, TWO_WORKERS),
        (TransportError("reset"), SUSPENDED, RESUMED),
        (api_error(500), SUSPENDED, RESUMED),
        (api_error(504), SUSPENDED, RESUMED),
        (api_error(409, "Conflict"), SUSPENDED, RESUMED),
    ],
)
def test_a_pod_that_is_let_go_of_is_no_loss_although_its_end_is_seen_after_a_change_of_mind(
    harness: Harness, error: Exception | None, away: dict[str, Any], back: dict[str, Any]
) -> None:
    """Nor if its deletion was answered with an error."""
    harness.running(PS=1, Worker=2, restart_policy="OnFailure")
    harness.api.mute("pods")
    if error is not None:
        harness.api.lose_answer(PODS, "ns", "job-worker-0", error)
    for spec in (away, back):
        harness.api.edit(TFJOBS, "ns", "job", {"spec": spec})
        version = harness.api.objects(TFJOBS)[0]["metadata"]["resourceVersion"]
        eventually(lambda v=version: harness.informers.jobs.lister.list()[0].metadata.resource_version == v)
        harness.controller.sync_tfjob("ns/job")
    harness.api.unmute()
    harness.informers.pods.relist()
    harness.sync(times=3)
    assert len(harness.api.names(PODS)) == 3
    assert harness.status()["replicaStatuses"]["Worker"].get("restarts", 0) == 0
    assert "Restarting" not in {condition["type"] for condition in harness.status()["conditions"]}


def test_a_job_that_was_given_more_time_meanwhile_is_not_deleted(clocked: Harness, clock: FakeClock) -> None:
    clocked.submit_and_sync(Worker=1, run_policy={"ttlSecondsAfterFinished": 100})
    clocked.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
    clocked.sync()
    clocked.api.mute("tfjobs")
    clocked.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 10**6}}})
    clock.advance(101)
    clocked.forget_calls()
    clocked.controller.sync_tfjob("ns/job")
    assert (clocked.calls(), clocked.api.names(TFJOBS)) == ([("delete", "tfjobs")], ["job"])
    assert clocked.queue.num_requeues("ns/job") == 1, "the cache will show it"


@pytest.mark.parametrize("error", [api_error(409, "Conflict"), api_error(500, message="etcd is slow")])
def test_a_deletion_that_fails_is_told_and_repeated(harness: Harness, error: Exception) -> None:
    harness.submit_and_sync(Worker=1)
    harness.api.fail("delete", "pods", error)
    harness.suspend()
    harness.sync()
    assert harness.queue.num_requeues("ns/job") == 1
    assert "FailedDeletePod" in harness.recorder.reasons
    harness.sync()
    assert harness.api.names(PODS) == []


@pytest.fixture
def failed(at_once: Harness) -> Harness:
    """A job whose only pod has failed, and is to be replaced now."""
    at_once.submit_and_sync(Worker=1, restart_policy="OnFailure")
    at_once.play_kubelet("job-worker-0", "Running")
    at_once.sync()
    at_once.play_kubelet("job-worker-0", "Failed", exit_code=137)
    at_once.forget_calls()
    return at_once


@pytest.fixture
def at_once() -> Iterator[Harness]:
    with Harness(options=controller_options(plan=plan_options(restart_delay_base=0))) as harness:
        yield harness


def test_a_failed_pod_is_replaced_in_one_sync(failed: Harness) -> None:
    failed.controller.sync_tfjob("ns/job")
    assert failed.calls() == [("replace", "tfjobs"), ("delete", "pods"), ("create", "pods")]
    expected = ["SuccessfulDeletePod", "SuccessfulCreatePod", "TFJobRestarting", "ExitedWithCode"]
    assert failed.recorder.reasons[-4:] == expected
    failed.catch_up()
    failed.run_all()
    assert (failed.status()["restarts"], failed.api.count("create", "pods")) == (1, 1)


def test_nothing_is_made_in_the_place_of_a_pod_that_could_not_be_deleted(failed: Harness) -> None:
    failed.api.fail("delete", "pods", api_error(500))
    failed.controller.sync_tfjob("ns/job")
    assert (failed.api.count("create", "pods"), failed.queue.num_requeues("ns/job")) == (0, 1)
    failed.sync()
    assert (failed.api.names(PODS), failed.api.count("create", "pods")) == (["job-worker-0"], 1)
    failed.run_all()
    assert failed.status()["restarts"] == 1


def test_a_pod_that_stays_against_expectation_is_waited_for(failed: Harness) -> None:
    failed.api.graceful.add("pods")
    failed.controller.sync_tfjob("ns/job")
    [pod] = failed.api.objects(PODS)
    assert pod["metadata"]["deletionTimestamp"]
    assert failed.queue.num_requeues("ns/job") == 1
