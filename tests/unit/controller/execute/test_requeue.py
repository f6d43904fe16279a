from datetime import UTC, datetime

import pytest

from tests.support.controller_harness import Harness
from tests.support.fake_api import api_error
from tfoperator.controller import Comparison
from tfoperator.kube.protocol.errors import Status, StatusCause, StatusDetails, error_from_status
from tfoperator.kube.protocol.resources import PODS

INVALID = StatusCause(field="spec.containers[0].resources", message="must be less than or equal to cpu limit")


def invalid(words: str, cause: StatusCause = INVALID) -> Exception:
    return error_from_status(Status(422, "Invalid", words, StatusDetails(causes=(cause,))))


UNREADABLE = (
    'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field '
    "Container.spec.containers.command of type []string"
)


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (invalid("Pod is invalid"), "must be less than or equal to cpu limit"),
        (api_error(400, "BadRequest", UNREADABLE), "Container.spec.containers.command of type []string"),
    ],
    ids=["invalid", "no API server can read it"],
)
def test_a_refused_pod_makes_the_job_fail_with_the_servers_words_instead_of_a_loop(
    harness: Harness, refusal: Exception, words: str
) -> None:
    harness.api.fail("create", "pods", refusal, times=1000)
    harness.submit(Worker=4)
    harness.controller.sync_tfjob("ns/job")
    assert harness.api.count("create", "pods") == 1
    harness.sync()
    message = harness.condition("Failed")["message"]
    assert "spec.tfReplicaSpecs[Worker].template" in message
    assert words in message
    assert harness.api.count("create", "pods") == 1


BY_WEBHOOK = 'admission webhook "quota.example.com" denied the request: come back later'
BY_POLICY = "ValidatingAdmissionPolicy 'night' with binding 'all' denied request: no new pods before 18:00"


@pytest.mark.parametrize(
    "denial",
    [
        api_error(400, "BadRequest", BY_WEBHOOK),
        api_error(422, "Invalid", BY_WEBHOOK),
        invalid(BY_WEBHOOK),
        invalid(f'pods "job-worker-0" is forbidden: {BY_POLICY}', StatusCause(message=BY_POLICY)),
    ],
    ids=["webhook, 400", "webhook, 422", "webhook that names a field", "policy"],
)
@pytest.mark.parametrize("runs", [False, True])
def test_who_denies_may_think_better_of_it(harness: Harness, denial: Exception, runs: bool) -> None:
    if runs:
        harness.running(Worker=2, restart_policy="OnFailure")
        harness.api.remove(PODS, "ns", "job-worker-1")
    else:
        harness.submit(Worker=2)
    harness.catch_up()
    harness.api.fail("create", "pods", denial, times=1)
    harness.sync()
    assert (harness.queue.num_requeues("ns/job"), harness.condition("Failed")) == (1, {})
    assert harness.condition("Running").get("status") != "Unknown"
    [message] = harness.recorder.messages("FailedCreatePod")
    assert "denied" in message
    harness.sync()
    assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]


def test_a_running_job_gets_over_a_refusal_that_had_nothing_to_do_with_its_spec(harness: Harness) -> None:
    uid = harness.running(restart_policy="OnFailure", Worker=2)["metadata"]["uid"]
    harness.api.remove(PODS, "ns", "job-worker-1")
    harness.catch_up()
    harness.api.fail("create", "pods", invalid("Pod is invalid"), times=2)
    for _ in range(2):
        harness.sync(times=3)
        frozen = harness.condition("Running")
        assert (frozen["status"], frozen["reason"]) == ("Unknown", "TFJobInvalid")
        assert INVALID.message in frozen["message"]
        # Once per comparison with the live state, which is every five minutes in the end.
        harness.controller.note_comparison(uid, Comparison(time=datetime.now(UTC), write=False))
    assert harness.api.count("create", "pods") == 2 + 2  # refused
    harness.sync()
    assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]
    harness.play_kubelet("job-worker-1", "Running")
    harness.sync()
    assert (harness.condition("Running")["status"], harness.status()["restarts"]) == ("True", 1)


def test_a_time_to_live_of_zero_does_not_make_a_refused_write_a_tight_loop(clocked: Harness) -> None:
    clocked.submit_and_sync(Worker=1, run_policy={"ttlSecondsAfterFinished": 0})
    clocked.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
    delays: list[float] = []
    clocked.queue.add_after = lambda key, seconds: delays.append(seconds)  # type: ignore[method-assign]
    clocked.api.fail("replace", "tfjobs", api_error(500))
    clocked.controller.sync_tfjob("ns/job")
    assert delays
    assert min(delays) > 0


def test_a_terminating_namespace_is_not_fought_against(harness: Harness) -> None:
    details = StatusDetails(causes=(StatusCause(reason="NamespaceTerminating", message="is being terminated"),))
    ending = error_from_status(Status(code=403, reason="Forbidden", message="being terminated", details=details))
    harness.api.fail("create", "services", ending, times=1000)
    harness.submit(Worker=3)
    harness.controller.sync_tfjob("ns/job")
    assert (harness.api.count("create", "services"), harness.queue.num_requeues("ns/job")) == (1, 0)
    assert harness.recorder.events == []


def test_a_wish_for_patience_is_granted(clocked: Harness) -> None:
    busy = error_from_status(Status(code=429, reason="TooManyRequests"), retry_after=7.0)
    clocked.api.fail("create", "services", busy)
    delays: list[tuple[str, float]] = []
    clocked.queue.add_after = lambda key, seconds: delays.append((key, seconds))  # type: ignore[method-assign]
    clocked.submit(Worker=1)
    clocked.controller.sync_tfjob("ns/job")
    assert ("ns/job", 7.0) in delays


def test_a_server_that_always_asks_to_come_back_at_once_is_asked_ever_more_rarely(clocked: Harness) -> None:
    busy = error_from_status(Status(code=429, reason="TooManyRequests"), retry_after=0.0)
    clocked.api.fail("create", "services", busy, times=1000)
    delays: list[float] = []
    clocked.queue.add_after = lambda key, seconds: delays.append(seconds)  # type: ignore[method-assign]
    clocked.submit(Worker=1)
    for _ in range(3):
        clocked.controller.sync_tfjob("ns/job")
    assert delays[0] > 0
    assert delays == sorted(set(delays)), "each wait is longer than the one before"
