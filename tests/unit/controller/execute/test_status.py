from __future__ import annotations

import pytest

from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tests.support.fake_api import api_error
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller.ledger import StaleCache
from tfoperator.kube.resources import PODS, SERVICES


def test_a_status_that_the_api_server_refuses_is_told_of_once_by_an_event(harness: Harness) -> None:
    harness.submit(Worker=1)
    refusal = api_error(422, "Invalid", "spec.tfReplicaSpecs: replica types are ..." + "x" * 2000)
    harness.api.fail("patch", "tfjobs", refusal, times=3)
    harness.sync(times=3)
    told = [message for _, reason, message in harness.recorder.events if reason == "StatusRefused"]
    assert len(told) == 1
    assert "replica types are" in told[0]
    assert len(told[0]) <= 1024
    assert harness.queue.num_requeues("ns/job") == 3
    harness.sync()
    assert harness.condition("Created")["status"] == "True"


def test_the_status_of_a_job_that_is_gone_is_not_written_onto_its_successor(harness: Harness) -> None:
    harness.submit(Worker=1)
    harness.api.mute("tfjobs")
    harness.api.remove(TFJOBS, "ns", "job")
    successor = harness.api.put(TFJOBS, {"metadata": {"name": "job", "namespace": "ns"}, "spec": {}})
    harness.controller.sync_tfjob("ns/job")
    [job] = harness.api.objects(TFJOBS)
    assert job["metadata"]["uid"] == successor["metadata"]["uid"]
    assert "status" not in job


def test_a_new_leader_with_an_old_view_of_a_job_does_not_write_over_what_it_has_not_seen(harness: Harness) -> None:
    harness.submit_and_sync(Worker=2, restart_policy="OnFailure")
    harness.api.mute("tfjobs")
    # What its predecessor wrote last.
    written = {"phase": "Restarting", "replicaStatuses": {"Worker": {"restarts": 3, "restartCounts": {"0": 3}}}}
    harness.api.edit(TFJOBS, "ns", "job", {"status": written})
    harness.api.edit(PODS, "ns", "job-worker-0", {"status": {"phase": "Failed"}})
    eventually(lambda: harness.informers.pods.lister.find("ns/job-worker-0").status.phase == "Failed")
    before = harness.status()
    harness.controller.sync_tfjob("ns/job")
    assert harness.api.count("patch", "tfjobs") == 2, "it did not try"
    assert harness.status() == before
    assert harness.queue.num_requeues("ns/job") == 1
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
    harness.api.fail("patch", "tfjobs", api_error(404, "NotFound", "the server could not find the requested resource"))
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
