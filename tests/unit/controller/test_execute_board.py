from __future__ import annotations

from typing import Any

import pytest

from tests.support.controller_harness import Harness
from tests.support.fake_api import Call, api_error
from tfoperator.api import names
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.errors import KubeError
from tfoperator.kube.resources import DEPLOYMENTS, PODS, SERVICES

NAME = "job-tensorboard"
BOARD = {"tensorBoard": {"logDir": "gs://bucket/logs"}}


def warnings(harness: Harness) -> list[str]:
    return [message for kind, reason, message in harness.recorder.events if reason == "FailedTensorBoard"]


def test_it_is_made_once_and_shown_in_the_status() -> None:
    with Harness() as harness:
        harness.submit(Worker=1, spec=BOARD)
        for _ in range(3):
            harness.sync()
        assert harness.api.names(DEPLOYMENTS) == [NAME]
        assert harness.api.names(SERVICES) == [NAME, "job-worker-0"]
        assert harness.api.count("create", "deployments") == 1
        assert harness.status()["tensorBoard"] == {"url": f"http://{NAME}.ns.svc"}
        assert harness.recorder.reasons.count("TensorBoardCreated") == 1


def test_it_is_ready_when_the_deployment_says_so() -> None:
    with Harness() as harness:
        harness.submit(Worker=1, spec=BOARD)
        harness.sync()
        harness.api.edit(DEPLOYMENTS, "ns", NAME, {"status": {"availableReplicas": 1}})
        harness.catch_up()
        harness.sync()
        assert harness.status()["tensorBoard"]["ready"] is True


def test_a_job_without_one_costs_no_call_for_it() -> None:
    with Harness() as harness:
        harness.submit(Worker=1)
        harness.forget_calls()
        harness.sync()
        harness.play_kubelet("job-worker-0", "Running")
        harness.sync()
        harness.play_kubelet("job-worker-0", "Succeeded", exit_code=0)
        harness.sync()
        assert "deployments" not in {resource for _, resource in harness.calls()}
        assert harness.api.count("create") == 2


def test_its_creation_is_expected_before_it_is_asked_for() -> None:
    with Harness() as harness:
        uid = harness.submit(Worker=1, spec=BOARD)["metadata"]["uid"]
        harness.sync()
        harness.api.remove(DEPLOYMENTS, "ns", NAME)
        harness.catch_up()
        seen: list[bool] = []

        def look(call: Call) -> None:
            if call.verb == "create":
                seen.append(harness.expectations.owner_satisfied(uid))

        harness.api.react(look)
        harness.sync()
        assert seen == [False]


def test_a_cache_that_has_not_seen_it_yet_makes_no_second_one() -> None:
    with Harness() as harness:
        harness.submit(Worker=1, spec=BOARD)
        harness.api.mute("deployments", "services")
        for _ in range(3):
            harness.controller.sync_tfjob("ns/job")
        assert harness.api.count("create", "deployments") == 1
        assert harness.api.count("create", "services") == 2


@pytest.mark.parametrize("resource", [DEPLOYMENTS, SERVICES])
def test_a_foreign_object_in_the_way_is_reported_once_and_the_job_trains_on(resource: Any) -> None:
    with Harness() as harness:
        harness.api.put(resource, {"metadata": {"name": NAME, "namespace": "ns", "labels": {}}})
        harness.submit(Worker=1, spec=BOARD)
        for _ in range(3):
            harness.sync()
        assert len(warnings(harness)) == 1
        assert f"{resource.kind} ns/{NAME} is in the way" in warnings(harness)[0]
        assert harness.queue.num_requeues("ns/job") > 0
        harness.play_kubelet("job-worker-0", "Running")
        harness.sync()
        assert harness.condition("Running")["status"] == "True"
        harness.api.remove(resource, "ns", NAME)
        harness.sync()
        [ours] = [one for one in harness.api.objects(resource) if one["metadata"]["name"] == NAME]
        assert ours["metadata"]["labels"] == names.tensorboard_labels("job")
        assert harness.queue.num_requeues("ns/job") == 0


@pytest.mark.parametrize(
    "refusal",
    [
        api_error(422, "Invalid", "no such volume"),
        api_error(400, "BadRequest", "Deployment in version v1 cannot be handled as a Deployment: no such volume"),
    ],
)
def test_one_that_the_api_server_refuses_does_not_hurt_the_training(refusal: KubeError) -> None:
    with Harness() as harness:
        harness.submit(Worker=1, spec=BOARD)
        harness.api.fail("create", "deployments", refusal, times=3)
        for _ in range(3):
            harness.sync()
        assert len(warnings(harness)) == 1
        assert "no such volume" in warnings(harness)[0]
        assert harness.api.names(PODS) == ["job-worker-0"]
        assert not harness.condition("Failed")
        harness.sync()
        assert harness.api.names(DEPLOYMENTS) == [NAME]


def test_what_an_orphaned_one_lacks_is_an_owner() -> None:
    with Harness() as harness:
        harness.submit(Worker=1, spec=BOARD)
        harness.sync()
        harness.api.edit(DEPLOYMENTS, "ns", NAME, {"metadata": {"ownerReferences": []}})
        harness.catch_up()
        harness.sync()
        [deployment] = harness.api.objects(DEPLOYMENTS)
        assert deployment["metadata"]["ownerReferences"][0]["controller"] is True
        assert harness.api.count("create", "deployments") == 1


def test_a_change_is_one_patch_and_a_removal_two_deletions() -> None:
    with Harness() as harness:
        harness.submit(Worker=1, spec=BOARD)
        harness.sync()
        harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tensorBoard": {"image": "boards:2"}}})
        harness.catch_up()
        for _ in range(2):
            harness.sync()
        assert harness.api.count("patch", "deployments") == 1
        [deployment] = harness.api.objects(DEPLOYMENTS)
        assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "boards:2"

        harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tensorBoard": None}})
        harness.catch_up()
        for _ in range(2):
            harness.sync()
        assert harness.api.names(DEPLOYMENTS) == []
        assert harness.api.names(SERVICES) == ["job-worker-0"]
        assert "tensorBoard" not in harness.status()
        assert harness.api.count("delete") == 2
