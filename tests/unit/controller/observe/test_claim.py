from typing import Any

import pytest

from tests.support.controller_harness import Harness
from tests.support.fake_api import api_error
from tfoperator.api.replicas import names
from tfoperator.api.replicas.names import LABEL_OPERATOR_NAME, LABEL_REPLICA_INDEX
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import ConflictError
from tfoperator.kube.protocol.resources import DEPLOYMENTS, PODS, SERVICES, Resource

LABELS = names.replica_labels("job", ReplicaType.WORKER, 0, is_master=False)


def pod(name: str = "job-worker-0", *, labels: dict[str, str] = LABELS, **meta: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "labels": labels, **meta}
    return {"metadata": metadata, "status": {"phase": "Running"}}


def owners(harness: Harness, name: str = "job-worker-0") -> list[str]:
    [body] = [candidate for candidate in harness.api.objects(PODS) if candidate["metadata"]["name"] == name]
    return [reference["uid"] for reference in body["metadata"].get("ownerReferences", [])]


def owner(uid: str, kind: str = "TFJob", name: str = "job") -> dict[str, Any]:
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def test_what_another_namespace_says_of_its_owner_is_nothing_to_the_job(harness: Harness) -> None:
    uid = harness.submit_and_sync(Worker=1)["metadata"]["uid"]
    finished = pod(namespace="elsewhere", ownerReferences=[owner(uid)]) | {"status": {"phase": "Succeeded"}}
    harness.api.put(PODS, finished)
    harness.forget_calls()
    harness.sync()
    assert not harness.condition("Succeeded")
    assert harness.calls() == []


def test_adoption_looks_at_the_live_job_once_however_many_orphans_there_are_and_leaves_their_owners(
    harness: Harness,
) -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "other"}
    for index in range(3):
        labels = {**LABELS, names.LABEL_REPLICA_INDEX: str(index)}
        harness.api.put(PODS, pod(f"job-worker-{index}", labels=labels, ownerReferences=[other] * (index == 0)))
    uid = harness.submit(Worker=3)["metadata"]["uid"]
    harness.forget_calls()
    harness.sync()
    assert harness.calls("get", "list") == [("get", "tfjobs"), *[("get", "pods")] * 3]
    assert [owners(harness, f"job-worker-{index}") for index in range(3)] == [["other", uid], [uid], [uid]]


@pytest.mark.parametrize(
    ("meta", "phase", "why"),
    [
        ({"creationTimestamp": "2026-01-01T00:00:00Z"}, "Succeeded", "is older than this job"),
        ({"creationTimestamp": "2026-01-01T00:00:00Z"}, "Running", "is older than this job"),
        ({}, "Succeeded", "ended before this job could adopt it"),
        ({}, "Failed", "ended before this job could adopt it"),
    ],
)
def test_a_pod_of_an_earlier_job_decides_nothing_until_it_is_deleted(
    harness: Harness, meta: dict[str, Any], phase: str, why: str
) -> None:
    """As after `kubectl delete --cascade=orphan` and `kubectl apply` with another command."""
    harness.api.put(PODS, pod(**meta) | {"status": {"phase": phase}})
    harness.submit_and_sync(Worker=2)
    harness.sync(times=3)
    assert owners(harness) == []
    conditions = {condition["type"]: condition["status"] for condition in harness.status()["conditions"]}
    assert conditions == {"Created": "True", "Running": "False"}
    assert f"this Pod {why}" in harness.condition("Running")["message"]
    [message] = harness.recorder.messages("FailedCreatePod")
    assert message.startswith("Pod ns/job-worker-0 has a name that this job needs: this Pod " + why)
    assert "Delete this Pod, so that the operator can create the job's own Pod, or choose another name" in message
    harness.api.delete(PODS, "ns", "job-worker-0")
    harness.sync(times=2)
    assert len(owners(harness)) == 1, "the job's own pod is made once the name is free"


def test_nothing_is_adopted_for_a_job_that_is_gone_or_going_on_the_server(harness: Harness) -> None:
    harness.submit(Worker=1)
    harness.api.put(PODS, pod())
    harness.catch_up()
    harness.api.mute("tfjobs")
    harness.api.edit(TFJOBS, "ns", "job", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    harness.controller.sync_tfjob("ns/job")
    assert owners(harness) == []


@pytest.mark.parametrize(
    "meta",
    [
        {"labels": {**LABELS, names.LABEL_OPERATOR_NAME: "another"}},
        {"labels": {**LABELS, names.LABEL_JOB_NAME: "another"}},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"ownerReferences": [owner("another-uid")]},
    ],
    ids=["of another operator", "of another job", "terminates", "another job of that name has it"],
)
def test_what_is_not_for_the_job_to_adopt_is_not_touched(harness: Harness, meta: dict[str, Any]) -> None:
    harness.api.put(PODS, pod("theirs", **meta))
    harness.submit_and_sync(Worker=1)
    assert owners(harness, "theirs") == (["another-uid"] if "ownerReferences" in meta else [])
    assert harness.api.names(PODS) == ["job-worker-0", "theirs"]


def test_a_pod_whose_labels_no_longer_match_is_released_and_replaced(harness: Harness) -> None:
    harness.submit_and_sync(Worker=2)
    # An administrator takes worker 1 out of the job to look at it. The name stays taken until it is deleted.
    harness.api.edit(PODS, "ns", "job-worker-1", {"metadata": {"labels": {names.LABEL_JOB_NAME: "debug"}}})
    harness.sync()
    assert owners(harness, "job-worker-1") == []


def test_a_lost_race_for_an_orphan_is_an_error_to_retry(harness: Harness) -> None:
    harness.api.put(PODS, pod())
    harness.submit(Worker=1)
    harness.api.fail("patch", "pods", api_error(409, "Conflict"))
    with pytest.raises(ConflictError):
        harness.controller.sync_tfjob("ns/job")
    harness.sync()
    assert len(owners(harness)) == 1


REFUSALS = [
    api_error(403, "Forbidden", "denied by policy"),
    api_error(400, "BadRequest", "admission webhook denied the request: denied by policy"),
    api_error(422, "Invalid", "denied by policy"),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_an_orphan_that_may_not_be_adopted_does_not_hold_up_the_job(harness: Harness, refusal: Exception) -> None:
    labels = names.replica_labels("job", ReplicaType.WORKER, 5, is_master=False)
    harness.api.put(SERVICES, {"metadata": {"name": "job-worker-5", "namespace": "ns", "labels": labels}})
    harness.api.fail("patch", "services", refusal, times=3)
    harness.submit_and_sync(Worker=2)
    assert len(harness.api.names(PODS)) == 2
    harness.run_all()
    assert harness.condition("Running")["status"] == "True"
    harness.sync()
    messages = harness.recorder.messages("FailedClaim")
    assert len(messages) == 1
    assert messages[0].startswith("Service ns/job-worker-5 has the labels of this job, but the API server does not let")
    assert "denied by policy" in messages[0]
    assert harness.queue.num_requeues("ns/job") > 0, "it is tried again"
    harness.sync(times=2)
    assert "job-worker-5" not in harness.api.names(SERVICES), "it is the job's now, which has no such worker"


@pytest.mark.parametrize("refusal", [REFUSALS[0], REFUSALS[1]])
def test_a_pod_that_may_not_be_released_holds_up_its_own_replica_only(harness: Harness, refusal: Exception) -> None:
    harness.running(Worker=2, restart_policy="OnFailure")
    harness.api.fail("patch", "pods", refusal, times=100)
    # One is still in the cache, and the cache has lost the other, for it has no label of ours any more.
    harness.api.edit(PODS, "ns", "job-worker-0", {"metadata": {"labels": {names.LABEL_JOB_NAME: "debug"}}})
    harness.api.edit(PODS, "ns", "job-worker-1", {"metadata": {"labels": {names.LABEL_OPERATOR_NAME: None}}})
    harness.informers.pods.relist()
    harness.sync(times=2)
    harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}})
    harness.sync(times=3)
    assert "job-worker-2" in harness.api.names(PODS)
    assert {"FailedClaim", "FailedCreatePod"} <= set(harness.recorder.reasons)


@pytest.mark.parametrize(
    ("resource", "labels"),
    [(SERVICES, LABELS), (SERVICES, names.tensorboard_labels("job")), (DEPLOYMENTS, names.tensorboard_labels("job"))],
)
def test_services_and_deployments_of_other_names_are_somebody_elses(
    harness: Harness, resource: Resource, labels: dict[str, str]
) -> None:
    """A user who exposes a pod or a deployment by kubectl gives the new service its labels."""
    harness.running(Worker=1)
    made = harness.api.put(resource, {"metadata": {"name": "mine", "namespace": "ns", "labels": labels}})
    harness.forget_calls()
    harness.sync()
    assert harness.calls() == []
    assert made in harness.api.objects(resource)


def test_a_service_of_another_replicas_name_is_not_adopted_in_its_place(harness: Harness) -> None:
    labels = {**LABELS, names.LABEL_REPLICA_INDEX: "7"}
    harness.api.put(SERVICES, {"metadata": {"name": "job-worker-0", "namespace": "ns", "labels": labels}})
    harness.submit_and_sync(Worker=1)
    [service] = harness.api.objects(SERVICES)
    assert "ownerReferences" not in service["metadata"]
    assert any(
        "Service ns/job-worker-0 has a name that this job needs" in message for *_, message in harness.recorder.events
    )


# Pods whose labels somebody changed: the cache loses sight of them, or takes them for another replica.


def test_a_pod_without_our_label_is_released_not_waited_for(harness: Harness) -> None:
    harness.running(Worker=2, restart_policy="OnFailure")
    harness.api.mute("pods")
    harness.api.edit(PODS, "ns", "job-worker-1", {"metadata": {"labels": {LABEL_OPERATOR_NAME: None}}})
    # The effect on a watch with a selector.
    harness.informers.pods.informers[0].indexer.delete("ns/job-worker-1")
    harness.controller.sync_tfjob("ns/job")
    [pod] = [candidate for candidate in harness.api.objects(PODS) if candidate["metadata"]["name"] == "job-worker-1"]
    assert pod["metadata"]["ownerReferences"] == []
    assert "FailedCreatePod" in harness.recorder.reasons


@pytest.mark.parametrize("index", ["none", "0"])
def test_a_pod_that_stands_for_another_replica_now_is_not_taken_for_unseen(harness: Harness, index: str) -> None:
    harness.running(Worker=2, restart_policy="OnFailure")
    harness.api.edit(PODS, "ns", "job-worker-1", {"metadata": {"labels": {LABEL_REPLICA_INDEX: index}}})
    harness.sync()
    if index == "none":
        assert any("has the labels of another replica" in message for _, _, message in harness.recorder.events)
        harness.api.remove(PODS, "ns", "job-worker-1")
        harness.catch_up()
    harness.sync()
    assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]
    assert harness.informers.pods.lister.find("ns/job-worker-1").metadata.labels[LABEL_REPLICA_INDEX] == "1"
