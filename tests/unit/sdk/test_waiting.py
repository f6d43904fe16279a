import threading
import time

import pytest

from tests.support.jobs import soon
from tests.support.served import ServedWorld
from tests.support.threads import InThread
from tfoperator.kube.protocol.errors import ClientClosed
from tfoperator.sdk import JobEnded, JobFailed, JobNotFound, TFJobClient, WaitTimeout


def test_a_failure_has_the_last_lines_of_the_replica_that_failed_first(world: ServedWorld) -> None:
    world.submit(Worker=2)
    world.pod("worker-0")
    world.pod("worker-1", phase="Failed", exit_code=3)
    world.logs.begin("mnist-worker-1", "".join(f"line {number}\n" for number in range(50)) + "ValueError: \x1b[2Jno\n")
    world.becomes("Failed", message="1 Worker replica(s) failed")
    with pytest.raises(JobFailed) as caught:
        world.sdk.wait_for_job_conditions("mnist")
    culprit = caught.value.culprit
    assert (culprit.replica, culprit.exit_code, len(culprit.last_lines)) == ("worker-1", 3, 20)
    assert culprit.last_lines[-2:] == ("line 49", "ValueError: no")
    assert str(caught.value).endswith("\n  | line 49\n  | ValueError: no")
    assert world.namespace in str(caught.value)
    assert caught.value.condition.reason == "TFJobFailed"


def test_a_failure_whose_logs_are_gone_is_still_one(world: ServedWorld) -> None:
    world.submit()
    world.pod("worker-0", phase="Failed", exit_code=3)
    world.becomes("Failed")
    with pytest.raises(JobFailed) as caught:
        world.sdk.wait_for_job_conditions("mnist")
    assert caught.value.culprit.last_lines == ()


def test_a_condition_that_is_true_already_needs_no_time_and_a_success_counts_as_having_run(world: ServedWorld) -> None:
    world.submit(condition="Running")
    world.sdk.wait_for_job_conditions("mnist", expected_conditions={"running"}, wait_timeout=0)
    world.becomes("Succeeded")
    world.sdk.wait_for_job_conditions("mnist", expected_conditions="Running")
    with pytest.raises(JobEnded, match="has succeeded, so it can't become Failed any more"):
        world.sdk.wait_for_job_conditions("mnist", expected_conditions=["Failed"])
    world.submit("bad", condition="Failed")
    assert world.sdk.is_job_failed(job=world.sdk.wait_for_job_conditions("bad", expected_conditions=["Failed"]))


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_the_time_limit_holds(world: ServedWorld, seconds: float) -> None:
    world.submit()
    world.becomes("Running", message="2 of 2 run")
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"is not Succeeded after .* it is Running \(2 of 2 run\)") as caught:
        world.sdk.wait_for_job_conditions("mnist", wait_timeout=seconds)
    assert time.monotonic() - began >= seconds
    assert isinstance(caught.value, WaitTimeout)
    assert caught.value.job is not None


def test_what_makes_no_sense_and_what_the_callback_raises_end_the_wait(world: ServedWorld) -> None:
    with pytest.raises(JobNotFound, match="no TFJob mnist in namespace"):
        world.sdk.wait_for_job_conditions("mnist")
    with pytest.raises(ValueError, match="'Done' is no condition; there are Created, Running"):
        world.sdk.wait_for_job_conditions("mnist", expected_conditions=["Done"])
    world.submit()
    with pytest.raises(ZeroDivisionError):
        world.sdk.wait_for_job_conditions("mnist", callback=lambda _: 1 // 0)


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
    waits = threading.Event()
    waiting = InThread(lambda: client.wait_for_job_conditions("mnist", callback=lambda _: waits.set()))
    assert waits.wait(60), "it has seen the job, and waits for a change"
    client.close()
    with pytest.raises(ClientClosed):
        waiting.result()
