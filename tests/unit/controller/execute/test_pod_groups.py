"""PodGroups through the whole controller, against an API server that answers from memory."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import tfjob
from tests.support.controller_harness import Harness, namespaced
from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi, api_error
from tfoperator.api.replicas.names import LABEL_JOB_NAME, LABEL_OPERATOR_NAME, OPERATOR_NAME
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller import ControllerMetrics, gang_scheduler
from tfoperator.controller.pods.gang import COSCHEDULING_POD_GROUPS, KUBERNETES_POD_GROUPS
from tfoperator.kube.protocol.errors import Status, StatusCause, StatusDetails, error_from_status
from tfoperator.kube.protocol.resources import PODS, PRIORITY_CLASSES


def harness(name: str = "mine", api: FakeApi | None = None, metrics: ControllerMetrics | None = None) -> Harness:
    return Harness(api=api, gang=gang_scheduler(name), metrics=metrics)


@pytest.fixture
def world() -> Iterator[Harness]:
    with harness() as made:
        yield made


def group(api: FakeApi, resource: Any = COSCHEDULING_POD_GROUPS) -> dict[str, Any]:
    (only,) = api.objects(resource)
    return only


def edit_job(world: Harness, **spec: Any) -> None:
    job = world.api.objects(TFJOBS)[0]
    generation = job["metadata"]["generation"] + 1 if job["metadata"].get("generation") else 2
    world.api.edit(TFJOBS, "ns", "job", {"metadata": {"generation": generation}, "spec": spec})


def test_a_gang_of_kubernetes_is_made_before_its_pods_and_costs_no_watch_of_priority_classes() -> None:
    with harness("kubernetes") as world:
        world.submit(Worker=2)
        world.forget_calls()
        world.sync()
        assert world.calls()[0] == ("create", "podgroups")
        made = group(world.api, KUBERNETES_POD_GROUPS)
        assert made["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}
        assert made["metadata"]["labels"] == {LABEL_OPERATOR_NAME: OPERATOR_NAME, LABEL_JOB_NAME: "job"}
        assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in world.api.objects(PODS)} == {"job"}
        assert world.calls_of_sync() == []
        assert world.informers.priority_classes is None


def test_a_change_is_one_patch_of_what_differs_and_a_group_that_was_replaced_stays_as_it_is(world: Harness) -> None:
    world.submit_and_sync(Worker=2)
    uid = group(world.api)["metadata"]["uid"]
    edit_job(world, runPolicy={"schedulingPolicy": {"minAvailable": 1}})
    world.api.fail("patch", "podgroups", api_error(409, "Conflict"))
    world.sync()
    assert group(world.api)["spec"]["minMember"] == 2
    world.forget_calls()
    world.sync()
    assert group(world.api)["spec"]["minMember"] == 1
    (patch,) = [call for call in world.api.calls if call.verb == "patch" and call.resource == "podgroups"]
    assert patch.body == {"metadata": {"uid": uid}, "spec": {"minMember": 1}}
    assert world.calls_of_sync() == []


def test_a_suspended_job_deletes_its_group_once() -> None:
    counted: list[tuple[str, str, int]] = []
    metrics = ControllerMetrics()
    metrics.objects_created = lambda kind, count, _: counted.append(("created", kind, count))
    metrics.objects_deleted = lambda kind, count: counted.append(("deleted", kind, count))
    with harness(metrics=metrics) as world:
        world.submit_and_sync(Worker=1)
        edit_job(world, runPolicy={"suspend": True})
        world.sync()
        assert world.api.objects(COSCHEDULING_POD_GROUPS) == []
        assert "SuccessfulDeletePodGroup" in world.recorder.reasons
        assert [(what, count) for what, kind, count in counted if kind == "podgroups"] == [
            ("created", 1),
            ("deleted", 1),
        ]


def test_no_pod_is_made_without_its_group(world: Harness) -> None:
    world.submit(Worker=1)
    world.api.fail("create", "podgroups", api_error(403, "Forbidden", "the queue is closed"))
    world.sync()
    assert world.api.names(PODS) == []
    assert "FailedCreatePodGroup" in world.recorder.reasons
    assert any("the queue is closed" in text for _, _, text in world.recorder.events)
    world.sync()
    assert world.api.names(PODS) == ["job-worker-0"]


def test_what_the_api_server_never_accepts_becomes_a_condition(world: Harness) -> None:
    cause = StatusCause(reason="FieldValueInvalid", message="must be lower", field="spec.minResources")
    status = Status(code=422, reason="Invalid", message="PodGroup is invalid", details=StatusDetails(causes=(cause,)))
    world.submit(Worker=1)
    world.api.fail("create", "podgroups", error_from_status(status))
    world.sync(times=2)
    message = world.condition("Failed")["message"]
    assert "spec.runPolicy.schedulingPolicy: the API server refuses the PodGroup: spec.minResources: must be" in message


def test_the_group_of_the_go_operator_has_no_labels_and_gets_them(world: Harness) -> None:
    job = world.submit(Worker=1)
    owner = {"apiVersion": TFJOBS.api_version, "kind": "TFJob", "name": "job", "uid": job["metadata"]["uid"]}
    made = {"metadata": {"name": "job", "ownerReferences": [{**owner, "controller": True}]}, "spec": {"minMember": 1}}
    world.api.put(COSCHEDULING_POD_GROUPS, namespaced(made))
    world.sync()
    assert group(world.api)["metadata"]["labels"][LABEL_JOB_NAME] == "job"
    assert world.api.names(PODS) == ["job-worker-0"]


@pytest.mark.parametrize("owned", [True, False])
def test_a_foreign_group_is_in_the_way_and_that_is_said_once(world: Harness, owned: bool) -> None:
    world.submit(Worker=1)
    owners = [{"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": "x", "controller": True}] if owned else []
    theirs = {"metadata": {"name": "job", "ownerReferences": owners}, "spec": {"minMember": 5}}
    world.api.put(COSCHEDULING_POD_GROUPS, namespaced(theirs))
    world.sync(times=2)
    assert world.recorder.reasons.count("FailedCreatePodGroup") == 1
    assert world.api.names(PODS) == []
    assert group(world.api)["spec"] == {"minMember": 5}


def test_priority_classes_are_read_from_a_cache() -> None:
    api = FakeApi()
    api.put(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 7})
    manifest = tfjob("job", PS=1, Worker=1, run_policy={"schedulingPolicy": {"minAvailable": 1}})
    for kind, cpu in (("PS", "1"), ("Worker", "2")):
        container = {"name": "tensorflow", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        manifest["spec"]["tfReplicaSpecs"][kind]["template"] = {"spec": {"containers": [container]}}
    manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = "urgent"
    with harness(api=api) as world:
        world.api.put(TFJOBS, namespaced(manifest))
        world.forget_calls()
        world.sync()
        assert group(world.api)["spec"]["minResources"] == {"cpu": "2"}
        assert world.calls("get", "list") == []


def test_a_priority_class_that_the_cache_sees_later_changes_the_gang_again() -> None:
    manifest = tfjob("job", PS=1, Worker=1, run_policy={"schedulingPolicy": {"minAvailable": 1}})
    for kind, cpu in (("PS", "1"), ("Worker", "2")):
        container = {"name": "tensorflow", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        manifest["spec"]["tfReplicaSpecs"][kind]["template"] = {"spec": {"containers": [container]}}
    manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["priorityClassName"] = "urgent"
    with harness() as world:
        world.controller.start()
        world.api.put(TFJOBS, namespaced(manifest))

        def asks_for(cpu: str) -> None:
            def does() -> bool:
                (made,) = world.api.objects(COSCHEDULING_POD_GROUPS) or [{"spec": {}}]
                return bool(made["spec"].get("minResources") == {"cpu": cpu})

            eventually(does, within=20, what=f"the gang asks for {cpu} CPUs")

        asks_for("1")
        world.api.put(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 7})
        asks_for("2")
        world.api.remove(PRIORITY_CLASSES, "", "urgent")
        asks_for("1")
