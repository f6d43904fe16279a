import pytest

from tests.contract.support import TFJOBS, Json, Space, refused, tfjob
from tfoperator.kube.protocol.errors import ConflictError, KubeError
from tfoperator.kube.protocol.verbs import PatchType

SELECTOR = "training.kubeflow.org/job-name=a"
STATUS = {"replicaStatuses": {"Worker": {"active": 1, "selector": SELECTOR}}}


def scale(space: Space, name: str = "a") -> Json:
    answer = space.http("GET", space.path(TFJOBS, name, "scale"))
    assert answer.code == 200, answer.body
    return dict(answer.body)


def workers(space: Space, name: str = "a") -> int:
    return int(space.get(TFJOBS, name)["spec"]["tfReplicaSpecs"]["Worker"]["replicas"])


def test_the_scale_of_a_job_is_that_of_its_workers_and_changes_nothing_else(space: Space) -> None:
    made = space.create(TFJOBS, tfjob("a", PS=3, Worker=2))
    new = scale(space)
    assert (new["kind"], new["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (new["spec"], new["status"]) == ({"replicas": 2}, {"replicas": 0})
    copied = ("name", "namespace", "uid", "creationTimestamp", "resourceVersion")
    assert {key: new["metadata"][key] for key in copied} == {key: made["metadata"][key] for key in copied}
    space.set_status(TFJOBS, "a", STATUS)
    wanted = scale(space)
    assert wanted["status"] == {"replicas": 1, "selector": SELECTOR}

    wanted["spec"]["replicas"], wanted["status"]["replicas"], wanted["metadata"]["labels"] = 5, 9, {"x": "y"}
    answer = space.http("PUT", space.path(TFJOBS, "a", "scale"), wanted)
    job = space.get(TFJOBS, "a")
    assert (answer.code, answer.body["spec"], answer.body["status"]["replicas"]) == (200, {"replicas": 5}, 1)
    assert workers(space) == 5
    assert job["spec"]["tfReplicaSpecs"]["PS"] == made["spec"]["tfReplicaSpecs"]["PS"]
    assert job["status"] == STATUS
    assert "labels" not in job["metadata"]
    assert job["metadata"]["generation"] == made["metadata"]["generation"] + 1
    assert answer.body["metadata"]["resourceVersion"] == job["metadata"]["resourceVersion"]


def test_a_scale_can_be_patched_tried_and_left_without_a_number_which_asks_for_none(space: Space) -> None:
    space.create(TFJOBS, tfjob("a"))
    path = space.path(TFJOBS, "a", "scale")
    space.patch(TFJOBS, "a", {"spec": {"replicas": 4}}, subresource="scale")
    merged = workers(space)
    operation = {"op": "replace", "path": "/spec/replicas", "value": 3}
    answer = space.http("PATCH", path, [operation], content_type=PatchType.JSON)
    assert (merged, answer.code, workers(space)) == (4, 200, 3)
    answer = space.http("PUT", f"{path}?dryRun=All", {**scale(space), "spec": {"replicas": 6}})
    assert (answer.code, answer.body["spec"], workers(space)) == (200, {"replicas": 6}, 3)
    space.http("PUT", path, {**scale(space), "spec": {}})
    assert (scale(space)["spec"], workers(space)) == ({}, 0)


def test_a_scale_of_an_old_version_or_another_job_is_refused_and_one_without_a_version_is_not(space: Space) -> None:
    space.create(TFJOBS, tfjob("a"))
    old = scale(space)
    space.patch(TFJOBS, "a", {"metadata": {"labels": {"x": "y"}}})
    old["spec"]["replicas"] = 7
    other = {**old, "metadata": {**scale(space)["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    stale = space.http("PUT", space.path(TFJOBS, "a", "scale"), old)
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")
    assert space.http("PUT", space.path(TFJOBS, "a", "scale"), other).code == 409
    with refused(ConflictError):
        space.patch(TFJOBS, "a", {"metadata": old["metadata"], "spec": {"replicas": 7}}, subresource="scale")
    assert workers(space) == 2
    del old["metadata"]["resourceVersion"]
    fresh = space.http("PUT", space.path(TFJOBS, "a", "scale"), old)
    assert (fresh.code, workers(space)) == (200, 7)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"spec": {"replicas": -1}}, 422),
        ({"spec": {"replicas": 10_001}}, 422),
        ({"spec": {"replicas": "many"}}, 400),
        ({"spec": {"replicas": 2**40}}, 400),
        ({"spec": "all"}, 400),
        ({"kind": "TFJob", "apiVersion": "kubeflow.org/v1"}, 400),
        ({"metadata": {"name": "b"}}, 400),
    ],
)
def test_a_bad_scale_is_refused(space: Space, change: Json, code: int) -> None:
    space.create(TFJOBS, tfjob("a"))
    made = scale(space)
    body = {**made, **change, "metadata": {**made["metadata"], **change.get("metadata", {})}}
    answer = space.http("PUT", space.path(TFJOBS, "a", "scale"), body)
    assert answer.code == code, answer.body
    assert workers(space) == 2


def test_a_job_without_workers_has_no_scale(space: Space) -> None:
    space.create(TFJOBS, tfjob("a", Chief=1))
    answer = space.http("GET", space.path(TFJOBS, "a", "scale"))
    with refused(KubeError):
        space.patch(TFJOBS, "a", {"spec": {"replicas": 1}}, subresource="scale")
    assert (answer.code, answer.body["reason"]) == (500, "InternalError")
    assert "tfReplicaSpecs.Worker.replicas" in answer.body["message"]
    assert space.http("GET", space.path(TFJOBS, "b", "scale")).code == 404
    assert space.http("DELETE", space.path(TFJOBS, "a", "scale")).code == 405


def test_discovery_tells_of_the_scale_and_its_kind(space: Space) -> None:
    listed = space.http("GET", "/apis/kubeflow.org/v1").body["resources"]
    (entry,) = (resource for resource in listed if resource["name"] == "tfjobs/scale")
    assert (entry["group"], entry["version"], entry["kind"]) == ("autoscaling", "v1", "Scale")
    assert set(entry["verbs"]) == {"get", "patch", "update"}
