from typing import Any

import pytest

from tests.support.controller_harness import Harness
from tests.support.fake_api import api_error
from tfoperator.api.replicas import names
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import DEPLOYMENTS, PODS, SERVICES

NAME = "job-tensorboard"
BOARD = {"tensorBoard": {"logDir": "gs://bucket/logs"}}


@pytest.mark.parametrize("resource", [DEPLOYMENTS, SERVICES])
def test_a_foreign_object_in_the_way_is_reported_once_and_the_job_trains_on(harness: Harness, resource: Any) -> None:
    harness.api.put(resource, {"metadata": {"name": NAME, "namespace": "ns", "labels": {}}})
    harness.submit(Worker=1, spec=BOARD)
    harness.sync(times=3)
    [message] = harness.recorder.messages("FailedTensorBoard")
    assert f"{resource.kind} ns/{NAME} has a name that this job needs" in message
    assert harness.queue.num_requeues("ns/job") > 0
    harness.play_kubelet("job-worker-0", "Running")
    harness.sync()
    assert harness.condition("Running")["status"] == "True"
    harness.api.remove(resource, "ns", NAME)
    harness.sync()
    [ours] = [candidate for candidate in harness.api.objects(resource) if candidate["metadata"]["name"] == NAME]
    assert ours["metadata"]["labels"] == names.tensorboard_labels("job")
    assert harness.queue.num_requeues("ns/job") == 0


@pytest.mark.parametrize(("code", "reason"), [(422, "Invalid"), (400, "BadRequest"), (403, "Forbidden")])
def test_a_refusal_is_told_once_though_its_words_change_and_does_not_hurt_the_training(
    harness: Harness, code: int, reason: str
) -> None:
    words = "Deployment in version v1 cannot be handled as a Deployment: number"
    for number in (1, 2, 3):
        harness.api.fail("create", "deployments", api_error(code, reason, f"{words} {number}"))
    harness.submit(Worker=1, spec=BOARD)
    harness.sync(times=3)
    [message] = harness.recorder.messages("FailedTensorBoard")
    assert message.endswith("number 1")
    assert harness.api.names(PODS) == ["job-worker-0"]
    assert not harness.condition("Failed")
    harness.sync()
    assert harness.api.names(DEPLOYMENTS) == [NAME]


def test_what_an_orphaned_one_lacks_is_an_owner(harness: Harness) -> None:
    harness.submit_and_sync(Worker=1, spec=BOARD)
    harness.api.edit(DEPLOYMENTS, "ns", NAME, {"metadata": {"ownerReferences": []}})
    harness.sync()
    [deployment] = harness.api.objects(DEPLOYMENTS)
    assert deployment["metadata"]["ownerReferences"][0]["controller"] is True
    assert harness.api.count("create", "deployments") == 1


def test_a_change_is_one_patch_and_a_removal_two_deletions(harness: Harness) -> None:
    harness.submit_and_sync(Worker=1, spec=BOARD)
    harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tensorBoard": {"image": "boards:2"}}})
    harness.sync(times=2)
    assert harness.api.count("patch", "deployments") == 1
    assert harness.recorder.reasons.count("TensorBoardCreated") == 1
    [deployment] = harness.api.objects(DEPLOYMENTS)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "boards:2"

    harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tensorBoard": None}})
    harness.sync(times=2)
    assert (harness.api.names(DEPLOYMENTS), harness.api.names(SERVICES)) == ([], ["job-worker-0"])
    assert "tensorBoard" not in harness.status()
    assert harness.api.count("delete") == 2


def test_one_whose_deletion_was_answered_with_an_error_is_gone_all_the_same(harness: Harness) -> None:
    harness.submit_and_sync(Worker=1, spec=BOARD)
    harness.api.lose_answer(DEPLOYMENTS, "ns", NAME, api_error(504))
    harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tensorBoard": None}})
    harness.sync()
    assert harness.queue.num_requeues("ns/job") == 0
    assert "TensorBoardDeleted" in harness.recorder.reasons
