from __future__ import annotations

import threading
import time

import pytest

from tests.support.jobs import soon
from tests.support.served import ServedWorld
from tfoperator.kube import ClientClosed
from tfoperator.sdk import JobDeleted, JobEnded, JobFailed, JobNotFound, TFJobClient, WaitTimeout
from tfoperator.sdk.states import job_state


def test_waiting_ends_as_soon_as_the_condition_is_true(world: ServedWorld) -> None:
    world.submit()
    states: list[str] = []
    steps = [lambda c=c: world.becomes(c) for c in ("Created", "Running", "Succeeded")]
    with soon(*steps):
        job = world.sdk.wait_for_job_conditions("mnist", callback=lambda job: states.append(job_state(job)))
    assert world.sdk.is_job_succeeded(job=job)
    assert states == ["Pending", "Created", "Running", "Succeeded"]


def test_a_condition_that_is_true_already_needs_no_time(world: ServedWorld) -> None:
    world.submit()
    world.becomes("Running")
    world.sdk.wait_for_job_conditions("mnist", expected_conditions={"running"}, wait_timeout=0)


def test_a_job_that_fails_ends_the_wait_and_says_why(world: ServedWorld) -> None:
    world.submit()
    with (
        soon(lambda: world.becomes("Failed", message="1 Worker replica(s) failed")),
        pytest.raises(JobFailed) as caught,
    ):
        world.sdk.wait_for_job_conditions("mnist")
    assert "1 Worker replica(s) failed" in str(caught.value)
    assert world.namespace in str(caught.value)
    assert caught.value.condition.reason == "TFJobFailed"


def test_failure_can_be_what_is_waited_for(world: ServedWorld) -> None:
    world.submit()
    world.becomes("Failed")
    assert world.sdk.is_job_failed(job=world.sdk.wait_for_job_conditions("mnist", expected_conditions=["Failed"]))


def test_a_success_counts_as_having_run_but_not_as_a_failure(world: ServedWorld) -> None:
    world.submit()
    world.becomes("Running")
    world.becomes("Succeeded")
    world.sdk.wait_for_job_conditions("mnist", expected_conditions=["Running"])
    with pytest.raises(JobEnded, match="has succeeded, so it will not be Failed"):
        world.sdk.wait_for_job_conditions("mnist", expected_conditions=["Failed"])


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_the_time_limit_holds_to_the_tenth_of_a_second(world: ServedWorld, seconds: float) -> None:
    world.submit()
    world.becomes("Running", message="2 of 2 run")
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"is not Succeeded after .* it is Running \(2 of 2 run\)") as caught:
        world.sdk.wait_for_job_conditions("mnist", wait_timeout=seconds)
    assert seconds <= time.monotonic() - began < seconds + 2
    assert isinstance(caught.value, WaitTimeout)
    assert caught.value.job is not None


def test_a_missing_and_a_deleted_job_are_told_apart(world: ServedWorld) -> None:
    with pytest.raises(JobNotFound, match="no TFJob mnist in namespace"):
        world.sdk.wait_for_job_conditions("mnist")
    world.submit()
    with soon(lambda: world.sdk.delete_job("mnist")), pytest.raises(JobDeleted):
        world.sdk.wait_for_job_conditions("mnist")


def test_an_unknown_condition_is_refused_at_once(world: ServedWorld) -> None:
    with pytest.raises(ValueError, match="'Done' is no condition; there are Created, Running"):
        world.sdk.wait_for_job_conditions("mnist", expected_conditions=["Done"])


def test_what_the_callback_raises_ends_the_wait(world: ServedWorld) -> None:
    world.submit()

    def stop(_: object) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        world.sdk.wait_for_job_conditions("mnist", callback=stop)


def test_waiting_for_a_deletion(world: ServedWorld) -> None:
    world.sdk.wait_for_job_deletion("mnist", wait_timeout=0)
    world.submit()
    with pytest.raises(WaitTimeout, match=r"still there after 0\.1 s"):
        world.sdk.wait_for_job_deletion("mnist", wait_timeout=0.1)
    with soon(lambda: world.sdk.delete_job("mnist")):
        world.sdk.wait_for_job_deletion("mnist")


def test_expired_history_does_not_disturb_a_wait(world: ServedWorld) -> None:
    world.submit()
    with soon(world.server.compact, lambda: world.becomes("Succeeded")):
        world.sdk.wait_for_job_conditions("mnist", wait_timeout=10)


def test_closing_the_client_ends_a_wait_in_another_thread(world: ServedWorld) -> None:
    world.submit()
    client = TFJobClient(str(world.kubeconfig))
    seen: list[BaseException] = []

    def wait() -> None:
        try:
            client.wait_for_job_conditions("mnist")
        except ClientClosed as error:
            seen.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)  # let it get into its watch
    client.close()
    thread.join(10)
    assert len(seen) == 1
