from datetime import timedelta
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tests.support.fake_api import api_error
from tfoperator.api.replicas import names
from tfoperator.api.v1.types import TFJOBS
from tfoperator.expectations import expectation_key
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.kube.protocol.resources import PODS, SERVICES
from tfoperator.kube.views.objects import timestamp

OURS = {names.LABEL_OPERATOR_NAME: names.OPERATOR_NAME, names.LABEL_JOB_NAME: "job"}


def in_the_way(labels: dict[str, str] | None = None, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "job-worker-0", "namespace": "ns", "labels": labels or {}, **meta}}


def owned_by(uid: str, kind: str = "TFJob", name: str = "job") -> list[dict[str, Any]]:
    return [{"apiVersion": "kubeflow.org/v1", "kind": kind, "name": name, "uid": uid, "controller": True}]


def test_what_a_job_needs_is_created_together_service_before_pod_and_costs_no_other_call(harness: Harness) -> None:
    harness.submit(Worker=7)
    harness.forget_calls()
    harness.sync()
    assert sorted(harness.calls()) == [("create", "pods")] * 7 + [("create", "services")] * 7 + [("replace", "tfjobs")]
    # The first chain is sent by itself: it shows whether anything may be created.
    sent = [[[action.resource for action in chain] for chain in chains] for chains in harness.api.sent]
    assert sent == [[[SERVICES, PODS]] * number for number in (1, 2, 4)]
    assert len(harness.api.names(PODS)) == 7
    assert harness.calls_of_sync() == []


@pytest.mark.parametrize("failing", ["services", "pods"])
def test_a_failure_amid_others_holds_up_nothing_for_long(harness: Harness, failing: str) -> None:
    harness.submit(Worker=7)
    harness.api.fail("create", failing, TransportError("reset"), times=1, name="job-worker-4")
    harness.sync()
    assert len(harness.api.names(PODS)) == 6
    harness.sync()
    assert len(harness.api.names(PODS)) == len(harness.api.names(SERVICES)) == 7
    assert harness.queue.num_requeues("ns/job") == 0


def test_expectations_are_raised_before_the_first_call(harness: Harness) -> None:
    job = harness.submit(Worker=2, spec={"tensorBoard": {"logDir": "gs://bucket/logs"}})
    expected = harness.expected_when_created(job["metadata"]["uid"])
    harness.sync(times=2)
    assert expected == [True] * 6


@pytest.mark.parametrize(
    ("owners", "whose"), [([], "does not belong to"), (owned_by("u", "ReplicaSet", "web"), "belongs to ReplicaSet web")]
)
def test_a_foreign_object_in_the_way_is_reported_once_and_holds_up_only_its_replica(
    harness: Harness, owners: list[dict[str, Any]], whose: str
) -> None:
    harness.api.put(PODS, in_the_way(ownerReferences=owners))
    harness.submit(Worker=2)
    harness.sync(times=3)
    [warning] = [message for kind, _, message in harness.recorder.events if kind == "Warning"]
    assert "Pod ns/job-worker-0 has a name that this job needs" in warning
    assert whose in warning
    assert harness.queue.num_requeues("ns/job") > 0
    assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]
    harness.api.remove(PODS, "ns", "job-worker-0")
    harness.sync()
    assert [pod["metadata"]["labels"][names.LABEL_JOB_NAME] for pod in harness.api.objects(PODS)] == ["job", "job"]
    assert harness.queue.num_requeues("ns/job") == 0


@pytest.mark.parametrize("workers", [1, 7])
def test_an_own_object_that_the_cache_misses_is_waited_for_without_a_warning(harness: Harness, workers: int) -> None:
    harness.submit(Worker=workers)
    harness.api.mute("pods", "services")
    harness.controller.sync_tfjob("ns/job")
    harness.forget_calls()
    harness.controller.sync_tfjob("ns/job")
    assert harness.calls("create", "delete") == [], "its expectations say that it has been created"
    uid = harness.api.objects(TFJOBS)[0]["metadata"]["uid"]
    harness.expectations.forget_owner(uid)
    harness.recorder.events.clear()
    harness.controller.sync_tfjob("ns/job")
    assert len(harness.api.names(PODS)) == workers
    assert (harness.recorder.events, harness.queue.num_requeues("ns/job")) == ([], 1)


def test_what_is_found_taken_is_looked_up_together_and_then_the_rest_is_created_together(harness: Harness) -> None:
    """As after the end of an operator that had created many services: a GET each, one after the other, takes long."""
    harness.submit(Worker=16)
    harness.api.mute("pods", "services")
    harness.api.fail("create", "pods", TransportError("reset"), times=16)
    uid = harness.api.objects(TFJOBS)[0]["metadata"]["uid"]
    for _ in range(16):  # each ends with its first failure
        harness.controller.sync_tfjob("ns/job")
        harness.expectations.forget_owner(uid)
    assert len(harness.api.names(SERVICES)) == 16
    harness.api.behave()
    harness.api.sent.clear()
    harness.controller.sync_tfjob("ns/job")
    assert [len(chains) for chains in harness.api.sent] == [number for number in (1, 2, 4, 8, 1) for _ in range(3)]
    assert len(harness.api.names(PODS)) == 16


def test_a_matching_orphan_that_the_cache_misses_is_adopted_when_its_name_is_found_taken(harness: Harness) -> None:
    uid = harness.submit(Worker=1)["metadata"]["uid"]
    harness.api.mute("pods")
    harness.api.put(PODS, in_the_way(OURS))
    harness.controller.sync_tfjob("ns/job")
    [pod] = harness.api.objects(PODS)
    assert pod["metadata"]["ownerReferences"][0]["uid"] == uid


@pytest.mark.parametrize(
    ("created", "phase", "why"),
    [
        ("2026-01-01T00:00:00Z", "Running", "is older than this job, so this job does not adopt it"),
        (None, "Succeeded", "ended before this job could adopt it"),
    ],
)
def test_an_orphan_of_an_earlier_job_that_the_cache_misses_is_not_adopted(
    harness: Harness, created: str | None, phase: str, why: str
) -> None:
    harness.submit(Worker=1)
    harness.api.mute("pods")
    meta = {} if created is None else {"creationTimestamp": created}
    harness.api.put(PODS, in_the_way(OURS, **meta) | {"status": {"phase": phase}})
    harness.controller.sync_tfjob("ns/job")
    [pod] = harness.api.objects(PODS)
    assert "ownerReferences" not in pod["metadata"]
    [message] = harness.recorder.messages("FailedCreatePod")
    assert f"Pod ns/job-worker-0 has a name that this job needs: this Pod {why}" in message


def test_an_object_of_ours_without_our_labels_is_released_and_reported(harness: Harness) -> None:
    uid = harness.submit(Worker=1)["metadata"]["uid"]
    harness.api.put(PODS, in_the_way(ownerReferences=owned_by(uid)))
    harness.sync()
    [pod] = harness.api.objects(PODS)
    assert pod["metadata"]["ownerReferences"] == []
    assert any("no longer has the job's labels" in message for _, _, message in harness.recorder.events)


@pytest.mark.parametrize(
    ("finalizers", "why"), [([], "its node may be lost"), (["example.com/hold"], "it has a finalizer")]
)
def test_what_an_earlier_job_of_the_name_leaves_for_too_long_is_told_of(
    clocked: Harness, clock: FakeClock, finalizers: list[str], why: str
) -> None:
    """A pod on a lost node, or with a finalizer: its end does not come, and a new job waits for its name."""
    due = timestamp(clock.now() + timedelta(seconds=30))
    owners = owned_by("earlier")
    clocked.api.put(PODS, in_the_way(OURS, ownerReferences=owners, deletionTimestamp=due, finalizers=finalizers))
    clocked.submit_and_sync(Worker=2)
    assert clocked.queue.num_requeues("ns/job") == 1
    clock.advance(59)
    clocked.sync()
    assert {kind for kind, _, _ in clocked.recorder.events} == {"Normal"}
    clock.advance(2)
    clocked.sync(times=2)
    [(reason, message)] = [(reason, message) for kind, reason, message in clocked.recorder.events if kind == "Warning"]
    assert reason == "FailedCreatePod"
    assert "Pod ns/job-worker-0 has a name that this job needs" in message
    assert f"should have been gone at {due}" in message
    assert why in message
    clocked.api.remove(PODS, "ns", "job-worker-0")
    clocked.sync()
    assert len(clocked.api.names(PODS)) == 2
    assert clocked.queue.num_requeues("ns/job") == 0


def test_a_service_in_the_way_holds_up_the_pod_of_its_replica_only(harness: Harness) -> None:
    harness.api.put(SERVICES, in_the_way())
    harness.submit_and_sync(Worker=2)
    assert harness.api.names(PODS) == ["job-worker-1"]


def refused_by_quota() -> Exception:
    words = 'pods "job-worker-0" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    return api_error(403, "Forbidden", words)


def lose_worker(harness: Harness, clock: FakeClock) -> None:
    """Worker 0 fails after an hour: it is to be replaced at once."""
    harness.submit_and_sync(Worker=2, restart_policy="OnFailure")
    harness.sync()
    lose_it_again(harness, clock)


def lose_it_again(harness: Harness, clock: FakeClock) -> None:
    harness.run_all()
    clock.advance(3600)
    harness.play_kubelet("job-worker-0", "Failed", exit_code=1)


def test_a_quota_that_still_counts_the_pod_which_is_replaced_is_no_news(clocked: Harness, clock: FakeClock) -> None:
    lose_worker(clocked, clock)
    for error in (refused_by_quota(), refused_by_quota()):
        clocked.api.fail("create", "pods", error)
        clocked.sync()
        assert clocked.api.names(PODS) == ["job-worker-1"]
        assert clocked.queue.num_requeues("ns/job") > 0, "it is tried again"
        clock.advance(1)
    clocked.sync()
    assert clocked.api.names(PODS) == ["job-worker-0", "job-worker-1"]
    assert "FailedCreatePod" not in clocked.recorder.reasons
    # The next time is the same, because the earlier wait is over, until the quota has had no room for long.
    lose_it_again(clocked, clock)
    clocked.api.fail("create", "pods", refused_by_quota())
    clocked.sync(times=2)
    assert clocked.api.names(PODS) == ["job-worker-0", "job-worker-1"]
    lose_it_again(clocked, clock)
    clocked.api.fail("create", "pods", refused_by_quota(), times=1000)
    clocked.sync()
    assert "FailedCreatePod" not in clocked.recorder.reasons
    clock.advance(6)
    clocked.sync()
    assert "FailedCreatePod" in clocked.recorder.reasons


def test_a_quota_without_room_for_a_first_pod_and_a_refusal_for_another_reason_are_told_at_once(
    clocked: Harness, clock: FakeClock
) -> None:
    clocked.api.fail("create", "pods", refused_by_quota())
    lose_worker(clocked, clock)
    assert clocked.recorder.reasons.count("FailedCreatePod") == 1
    clocked.sync()
    lose_it_again(clocked, clock)
    clocked.api.fail("create", "pods", api_error(403, "Forbidden", "a policy denies it"))
    clocked.sync()
    assert clocked.recorder.reasons.count("FailedCreatePod") == 2


# Objects that the cache does not show yet.


def test_unmet_expectations_of_one_replica_type_do_not_hold_up_another(harness: Harness) -> None:
    job = harness.submit(PS=1, Worker=2)
    uid = job["metadata"]["uid"]
    harness.expectations.expect_creations(expectation_key(uid, "PS", "pods"), 1)
    harness.controller.sync_tfjob("ns/job")
    assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]
    assert len(harness.api.names(SERVICES)) == 3


def test_a_pod_that_is_gone_while_another_is_still_awaited_is_not_judged_yet(harness: Harness) -> None:
    job = harness.running(Worker=2, restart_policy="OnFailure")
    harness.expectations.expect_creations(expectation_key(job["metadata"]["uid"], "Worker", "pods"), 1)
    harness.api.remove(PODS, "ns", "job-worker-1")
    eventually(lambda: len(harness.informers.pods.lister.list()) == 1)
    harness.forget_calls()
    harness.controller.sync_tfjob("ns/job")
    assert harness.calls() == []


def test_fields_of_pods_that_the_server_does_not_know_are_an_event_once(harness: Harness) -> None:
    harness.api.warn(PODS, 'unknown field "spec.containers[0].resouces"', "a policy would not like this")
    harness.submit(Worker=3)
    harness.sync(times=2)
    harness.api.remove(PODS, "ns", "job-worker-1")
    harness.sync(times=2)
    [warning] = [(reason, message) for kind, reason, message in harness.recorder.events if kind == "Warning"]
    assert warning == (
        "FieldsIgnored",
        "The API server does not know these fields, and created pod job-worker-0 without them: "
        "spec.containers[0].resouces. Correct their names in spec.tfReplicaSpecs[Worker].template; `tfoperator "
        "validate` finds them.",
    )
    assert len(harness.api.names(PODS)) == 3
