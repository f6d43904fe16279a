import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tests.support.fake_api import api_error
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller.execute.report import completion_events
from tfoperator.controller.ledger import StaleCache
from tfoperator.controller.plan.verdicts.invalid import problems_text
from tfoperator.kube.protocol.errors import ConfigError
from tfoperator.kube.protocol.resources import PODS, SERVICES


def test_a_status_that_the_api_server_refuses_is_told_of_once_by_an_event(harness: Harness) -> None:
    harness.submit(Worker=1)
    refusal = api_error(422, "Invalid", "spec.tfReplicaSpecs: replica types are ..." + "x" * 2000)
    harness.api.fail("replace", "tfjobs", refusal, times=3)
    harness.sync(times=3)
    messages = harness.recorder.messages("StatusRefused")
    assert len(messages) == 1
    assert "replica types are" in messages[0]
    assert len(messages[0]) <= 1024
    assert harness.queue.num_requeues("ns/job") == 3
    harness.sync()
    assert harness.condition("Created")["status"] == "True"


def test_a_new_leader_with_an_old_view_of_a_job_does_not_write_over_what_it_has_not_seen(harness: Harness) -> None:
    harness.submit_and_sync(Worker=2, restart_policy="OnFailure")
    harness.api.mute("tfjobs")
    # The last status of its predecessor.
    written = {"phase": "Restarting", "replicaStatuses": {"Worker": {"restarts": 3, "restartCounts": {"0": 3}}}}
    harness.api.edit(TFJOBS, "ns", "job", {"status": written})
    harness.api.edit(PODS, "ns", "job-worker-0", {"status": {"phase": "Failed"}})
    eventually(lambda: harness.informers.pods.lister.find("ns/job-worker-0").status.phase == "Failed")
    before = harness.status()
    harness.controller.sync_tfjob("ns/job")
    assert harness.api.count("replace", "tfjobs") == 2, "it did not try"
    assert (harness.status(), harness.queue.num_requeues("ns/job")) == (before, 1)
    # Until the cache follows.
    harness.api.unmute()
    harness.api.edit(TFJOBS, "ns", "job", {"metadata": {"labels": {"x": "y"}}})
    harness.sync()
    assert harness.status()["replicaStatuses"]["Worker"]["restartCounts"] == {"0": 3}


@pytest.mark.parametrize("replaced", [False, True])
def test_for_a_job_whose_deletion_the_watch_lost_nothing_is_made_again(harness: Harness, replaced: bool) -> None:
    """The garbage collector takes what was made for it, and each of those events queues the job."""
    uid = harness.submit(Worker=2)["metadata"]["uid"]
    harness.api.mute("tfjobs")
    harness.api.remove(TFJOBS, "ns", "job")
    if replaced:
        harness.api.put(TFJOBS, {"metadata": {"name": "job", "namespace": "ns"}, "spec": {}})
    harness.controller.sync_tfjob("ns/job")
    eventually(lambda: not harness.expectations.outstanding(uid), what="what was made is seen")
    for resource, cache in ((PODS, harness.informers.pods), (SERVICES, harness.informers.services)):
        for name in harness.api.names(resource):
            harness.api.remove(resource, "ns", name)
        eventually(lambda cache=cache: not cache.lister.list(), what="its end is seen")
    harness.forget_calls()
    for _ in range(3):
        with pytest.raises(StaleCache, match="the job"):
            harness.controller.sync_tfjob("ns/job")
    calls = harness.calls()
    assert {verb for verb, _ in calls} == {"get"}
    assert calls.count(("get", "tfjobs")) == 3


def test_a_job_that_was_not_found_by_mistake_goes_on(harness: Harness) -> None:
    """A proxy that answers for a server which is not ready, a type that is just being registered."""
    harness.submit(Worker=2)
    harness.api.fail("replace", "tfjobs", api_error(404, "NotFound", "the server could not find what is requested"))
    harness.sync()
    harness.api.remove(PODS, "ns", "job-worker-1")
    harness.sync(times=2)
    assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]
    assert harness.condition("Created")["status"] == "True"
    harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}})
    harness.forget_calls()
    harness.sync()
    assert len(harness.api.names(PODS)) == 3
    assert harness.calls("get") == [], "nothing is doubted any more"


# Events.


@pytest.mark.parametrize(
    ("pods", "services", "reason", "message"),
    [
        (["a"], [], "SuccessfulCreatePod", "Created pod: a"),
        (["a"], ["a"], "SuccessfulCreatePod", "Created pod: a and 1 service"),
        (["a", "b"], ["a", "b"], "SuccessfulCreatePod", "Created 2 pods: a, b and 2 services"),
        ([], ["a", "b"], "SuccessfulCreateService", "Created 2 services: a, b"),
        (list("abcdefg"), [], "SuccessfulCreatePod", "Created 7 pods: a, b, c, d, e and 2 more"),
    ],
)
def test_one_event_tells_all_that_was_created(pods: list[str], services: list[str], reason: str, message: str) -> None:
    (event,) = completion_events("Create", {"pods": pods, "services": services})
    assert (event.type, event.reason, event.message) == ("Normal", reason, message)


def test_nothing_done_is_no_event_and_problems_fit_on_one_line_of_a_condition() -> None:
    assert completion_events("Create", {}) == completion_events("Delete", {}) == ()
    assert problems_text(["a: b\n  c", "d: e"]) == "a: b c; d: e"
    assert len(problems_text(["x" * 700, "y" * 700])) == 1000


def test_the_end_of_a_time_to_live_is_told_and_so_is_a_deletion_that_fails(clocked: Harness, clock: FakeClock) -> None:
    clocked.submit_and_sync(Worker=1, run_policy={"ttlSecondsAfterFinished": 60})
    clocked.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
    clocked.sync()
    clock.advance(61)
    clocked.api.fail("delete", "tfjobs", api_error(403, "Forbidden", "not yours"))
    clocked.controller.sync_tfjob("ns/job")
    assert ("Warning", "FailedDeleteJob") in [(kind, reason) for kind, reason, _ in clocked.recorder.events]
    clocked.sync()
    assert ("Normal", "SuccessfulDeleteJob", "Deleted job: job") in clocked.recorder.events
    assert clocked.api.names(TFJOBS) == []
    *_, delete = [call for call in clocked.api.calls if (call.verb, call.resource) == ("delete", "tfjobs")]
    assert delete.body["uid"]
    assert delete.body["propagation"] == "Background"


def test_what_went_wrong_on_our_side_is_not_told_to_the_jobs_owner(harness: Harness) -> None:
    # A credential plugin's complaint may hold anything.
    harness.api.fail("create", "services", ConfigError("exec plugin failed: token hunter2 has expired"))
    harness.submit_and_sync(Worker=1)
    assert (harness.api.names(PODS), harness.queue.num_requeues("ns/job")) == ([], 1)
    assert not any("hunter2" in message for _, _, message in harness.recorder.events)
