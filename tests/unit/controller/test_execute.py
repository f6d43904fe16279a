from __future__ import annotations

from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tests.support.fake_api import Call, api_error
from tfoperator.api import names
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller import ControllerOptions, PlanOptions
from tfoperator.controller.execute import namespace_is_ending
from tfoperator.kube.errors import ConfigError, Status, StatusDetails, TransportError, error_from_status
from tfoperator.kube.resources import PODS, SERVICES

OURS = {names.LABEL_OPERATOR_NAME: names.OPERATOR_NAME, names.LABEL_JOB_NAME: "job"}


def in_the_way(labels: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "job-worker-0", "namespace": "ns", "labels": labels or {}, **meta}}


def test_expectations_are_raised_before_the_first_call() -> None:
    with Harness() as harness:
        uid = harness.submit(Worker=2)["metadata"]["uid"]
        seen: list[bool] = []

        def look(call: Call) -> None:
            if call.verb == "create":
                seen.append(harness.expectations.owner_satisfied(uid))

        harness.api.react(look)
        harness.controller.sync_tfjob("ns/job")
        assert seen == [False] * 4


def test_creating_starts_slowly_and_stops_at_the_first_failing_batch() -> None:
    with Harness() as harness:
        harness.submit(Worker=100)
        harness.api.fail("create", "pods", api_error(403, "Forbidden", "exceeded quota"), times=1000)
        harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("create", "services") == 1
        assert harness.api.count("create", "pods") == 1
        assert ("Warning", "FailedCreatePod") in [(kind, reason) for kind, reason, _ in harness.recorder.events]


def test_failed_and_skipped_creates_are_no_longer_expected() -> None:
    with Harness() as harness:
        harness.submit(Worker=10)
        harness.api.fail("create", "pods", TransportError("reset"), times=1, name="job-worker-4")
        harness.controller.sync_tfjob("ns/job")
        harness.catch_up()
        assert 0 < len(harness.api.names(PODS)) < 10
        harness.sync()
        assert len(harness.api.names(PODS)) == 10


def test_pods_wait_for_services_that_could_not_be_made() -> None:
    with Harness() as harness:
        harness.submit(Worker=2)
        harness.api.fail("create", "services", api_error(500))
        harness.sync()
        assert harness.api.names(PODS) == []
        harness.sync()
        assert len(harness.api.names(PODS)) == 2


def test_a_foreign_object_in_the_way_is_reported_once_and_holds_up_only_its_replica() -> None:
    with Harness() as harness:
        harness.api.put(PODS, in_the_way())
        harness.submit(Worker=2)
        for _ in range(3):
            harness.sync()
        warnings = [message for kind, _, message in harness.recorder.events if kind == "Warning"]
        assert len(warnings) == 1
        assert "Pod ns/job-worker-0 is in the way" in warnings[0]
        assert harness.queue.num_requeues("ns/job") > 0
        assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]
        harness.api.remove(PODS, "ns", "job-worker-0")
        harness.sync()
        assert [pod["metadata"].get("labels", {}).get(names.LABEL_JOB_NAME) for pod in harness.api.objects(PODS)] == [
            "job",
            "job",
        ]
        assert harness.queue.num_requeues("ns/job") == 0


def test_a_foreign_object_is_named_with_its_owner() -> None:
    with Harness() as harness:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
        harness.api.put(PODS, in_the_way(ownerReferences=[owner]))
        harness.submit(Worker=1)
        harness.sync()
        assert "belongs to ReplicaSet web" in harness.recorder.events[0][2]


def test_what_an_earlier_job_of_the_name_owned_is_waited_for_without_a_warning() -> None:
    with Harness() as harness:
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job", "uid": "earlier", "controller": True}
        harness.api.put(PODS, in_the_way(ownerReferences=[owner]))
        harness.submit(Worker=2)
        harness.sync()
        assert harness.recorder.reasons == ["SuccessfulCreatePod"]
        assert harness.queue.num_requeues("ns/job") == 1
        harness.api.remove(PODS, "ns", "job-worker-0")
        harness.sync()
        assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]


def test_an_own_object_that_the_cache_misses_is_waited_for_without_a_warning() -> None:
    with Harness() as harness:
        harness.submit(Worker=1)
        harness.api.mute("pods", "services")
        harness.controller.sync_tfjob("ns/job")
        uid = harness.api.objects(TFJOBS)[0]["metadata"]["uid"]
        harness.expectations.forget_owner(uid)
        harness.recorder.events.clear()
        harness.controller.sync_tfjob("ns/job")
        assert len(harness.api.names(PODS)) == 1
        assert harness.recorder.events == []
        assert harness.queue.num_requeues("ns/job") == 1


def test_a_matching_orphan_that_the_cache_misses_is_adopted_when_its_name_is_found_taken() -> None:
    with Harness() as harness:
        uid = harness.submit(Worker=1)["metadata"]["uid"]
        harness.api.mute("pods")
        harness.api.put(PODS, in_the_way(OURS))
        harness.controller.sync_tfjob("ns/job")
        [pod] = harness.api.objects(PODS)
        assert pod["metadata"]["ownerReferences"][0]["uid"] == uid


def test_an_object_of_ours_without_our_labels_is_released_and_reported() -> None:
    with Harness() as harness:
        uid = harness.submit(Worker=1)["metadata"]["uid"]
        owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job", "uid": uid, "controller": True}
        harness.api.put(PODS, in_the_way(ownerReferences=[owner]))
        harness.sync()
        [pod] = harness.api.objects(PODS)
        assert pod["metadata"]["ownerReferences"] == []
        assert any("no longer has the job's labels" in message for _, _, message in harness.recorder.events)


def test_a_restart_is_counted_durably_before_its_pod_is_deleted() -> None:
    with Harness(options=ControllerOptions(plan=PlanOptions(restart_delay_base=0))) as harness:
        harness.submit(Worker=2, restart_policy="ExitCode")
        harness.sync()
        harness.play_kubelet("job-worker-1", "Failed", exit_code=137)
        harness.api.fail("patch", "tfjobs", api_error(500), times=1)
        harness.forget_calls()
        for _ in range(3):
            harness.sync()
        order = harness.calls("patch", "delete")
        assert ("delete", "pods") in order
        assert order.index(("patch", "tfjobs")) < order.index(("delete", "pods"))
        restarts = harness.status()["replicaStatuses"]["Worker"]["restarts"]
        assert restarts == 1


def test_a_delete_carries_the_uid_and_a_vanished_object_is_no_error() -> None:
    with Harness() as harness:
        harness.submit(Worker=2)
        harness.sync()
        uids = {pod["metadata"]["uid"] for pod in harness.api.objects(PODS)}
        harness.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": True}}})
        harness.catch_up()

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
        # No event will ever tell of the one that was gone already.
        owner = harness.api.objects(TFJOBS)[0]["metadata"]["uid"]
        eventually(lambda: harness.expectations.owner_satisfied(owner), what="nothing more is expected")


@pytest.mark.parametrize("error", [TransportError("reset"), api_error(500), api_error(504), api_error(409, "Conflict")])
def test_a_pod_whose_deletion_was_answered_with_an_error_is_no_loss(error: Exception) -> None:
    with Harness() as harness:
        harness.submit(Worker=1, restart_policy="OnFailure")
        harness.sync()
        harness.play_kubelet("job-worker-0", "Running")
        harness.sync()
        harness.api.mute("pods")

        def lose_answer(call: Call) -> None:
            if call.verb == "delete" and call.resource == "pods" and harness.api.names(PODS):
                harness.api.remove(PODS, "ns", "job-worker-0")
                raise error

        harness.api.react(lose_answer)
        for suspended in (True, False):
            harness.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": suspended}}})
            version = harness.api.objects(TFJOBS)[0]["metadata"]["resourceVersion"]
            eventually(lambda v=version: harness.informers.jobs.lister.list()[0].metadata.resource_version == v)
            harness.controller.sync_tfjob("ns/job")
        harness.api.unmute()
        harness.informers.pods.relist()
        harness.catch_up()
        for _ in range(3):
            harness.sync()
        assert harness.api.names(PODS) == ["job-worker-0"]
        assert harness.status()["replicaStatuses"]["Worker"].get("restarts", 0) == 0


def test_a_conflict_that_leaves_a_pod_alive_is_tried_again() -> None:
    with Harness() as harness:
        harness.submit(Worker=1)
        harness.sync()
        harness.api.fail("delete", "pods", api_error(409, "Conflict"))
        harness.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": True}}})
        harness.catch_up()
        harness.sync()
        assert harness.queue.num_requeues("ns/job") == 1
        harness.sync()
        assert harness.api.names(PODS) == []


def test_one_event_tells_of_all_deletions() -> None:
    with Harness() as harness:
        harness.submit(Worker=3)
        harness.sync()
        harness.recorder.events.clear()
        harness.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": True}}})
        harness.catch_up()
        harness.sync()
        assert harness.api.names(PODS) == []
        assert harness.recorder.reasons.count("SuccessfulDeletePod") == 1


def test_a_delete_that_fails_is_reported_and_repeated() -> None:
    with Harness() as harness:
        harness.submit(Worker=1)
        harness.sync()
        harness.api.fail("delete", "pods", api_error(500, message="etcd is slow"))
        harness.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": True}}})
        harness.catch_up()
        harness.sync()
        assert "FailedDeletePod" in harness.recorder.reasons
        assert harness.queue.num_requeues("ns/job") == 1
        harness.sync()
        assert harness.api.names(PODS) == []


def test_what_went_wrong_on_our_side_is_not_told_to_the_jobs_owner() -> None:
    with Harness() as harness:
        # A credential plugin's complaint may hold anything.
        harness.api.fail("create", "services", ConfigError("exec plugin failed: token hunter2 has expired"))
        harness.submit(Worker=1)
        harness.sync()
        assert harness.api.names(PODS) == []
        assert harness.queue.num_requeues("ns/job") == 1
        assert not any("hunter2" in message for _, _, message in harness.recorder.events)


def test_events_of_a_status_wait_for_its_write() -> None:
    with Harness() as harness:
        harness.submit(Worker=1)
        harness.sync()
        harness.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
        harness.api.fail("patch", "tfjobs", api_error(503))
        harness.sync()
        assert "TFJobSucceeded" not in harness.recorder.reasons
        harness.sync()
        harness.sync()
        assert harness.recorder.reasons.count("TFJobSucceeded") == 1


def test_a_status_that_the_api_server_refuses_is_told_of_once_by_an_event() -> None:
    with Harness() as harness:
        harness.submit(Worker=1)
        refusal = api_error(422, "Invalid", "spec.tfReplicaSpecs: replica types are ..." + "x" * 2000)
        harness.api.fail("patch", "tfjobs", refusal, times=3)
        for _ in range(3):
            harness.sync()
        told = [message for _, reason, message in harness.recorder.events if reason == "StatusRefused"]
        assert len(told) == 1
        assert "replica types are" in told[0]
        assert len(told[0]) <= 1024
        assert harness.queue.num_requeues("ns/job") == 3
        harness.sync()
        assert harness.condition("Created")["status"] == "True"


def test_the_end_of_a_job_s_time_to_live_is_told_and_so_is_a_deletion_that_fails() -> None:
    clock = FakeClock()
    with Harness(clock=clock) as harness:
        harness.submit(Worker=1, run_policy={"ttlSecondsAfterFinished": 60})
        harness.sync()
        harness.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
        harness.sync()
        clock.advance(61)
        harness.api.fail("delete", "tfjobs", api_error(403, "Forbidden", "not yours"))
        harness.controller.sync_tfjob("ns/job")
        assert ("Warning", "FailedDeleteJob") in [(kind, reason) for kind, reason, _ in harness.recorder.events]
        harness.controller.sync_tfjob("ns/job")
        assert ("Normal", "SuccessfulDeleteJob", "Deleted job: job") in harness.recorder.events


def test_the_status_of_a_job_that_is_gone_is_not_written_onto_its_successor() -> None:
    with Harness() as harness:
        harness.submit(Worker=1)
        harness.api.mute("tfjobs")
        harness.api.remove(TFJOBS, "ns", "job")
        successor = harness.api.put(TFJOBS, {"metadata": {"name": "job", "namespace": "ns"}, "spec": {}})
        harness.controller.sync_tfjob("ns/job")
        [job] = harness.api.objects(TFJOBS)
        assert job["metadata"]["uid"] == successor["metadata"]["uid"]
        assert "status" not in job


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (api_error(403, "Forbidden"), False),
        (api_error(404, "NotFound"), False),
        (error_from_status(Status(code=404, details=StatusDetails(name="ns", kind="namespaces"))), True),
        (TransportError("reset"), False),
    ],
)
def test_only_the_end_of_the_namespace_itself_is_taken_for_one(error: Any, ending: bool) -> None:
    assert namespace_is_ending(error) is ending


def test_a_service_in_the_way_holds_up_the_pod_of_its_replica_only() -> None:
    with Harness() as harness:
        harness.api.put(SERVICES, in_the_way())
        harness.submit(Worker=2)
        harness.sync()
        assert harness.api.names(PODS) == ["job-worker-1"]
