"""Pods that are stopped by the end of their job, through the executor."""

import pytest

from tests.support.controller_harness import Harness
from tests.support.fake_api import api_error
from tfoperator.api.replicas.names import ANNOTATION_STOPPED
from tfoperator.kube.protocol.resources import PODS


def fail_worker_1(harness: Harness, workers: int = 3) -> None:
    """A job whose worker 1 fails, as the cache shows it."""
    harness.running(Worker=workers)
    harness.play_kubelet("job-worker-1", "Failed", exit_code=1)


def test_they_stay_with_a_deadline_and_one_event_tells(harness: Harness) -> None:
    fail_worker_1(harness)
    harness.sync()
    pods = {pod["metadata"]["name"]: pod for pod in harness.api.objects(PODS)}
    assert len(pods) == 3
    for name in ("job-worker-0", "job-worker-2"):
        assert pods[name]["spec"]["activeDeadlineSeconds"] == 1
        assert pods[name]["metadata"]["annotations"][ANNOTATION_STOPPED] == "job-failed"
    assert "activeDeadlineSeconds" not in pods["job-worker-1"]["spec"]
    [message] = harness.recorder.messages("SuccessfulStopPod")
    assert message.startswith("Stopped 2 pods: job-worker-0, job-worker-2, because the job has ended")
    harness.forget_calls()
    harness.sync()
    harness.play_kubelet("job-worker-0", "Failed", exit_code=143)
    harness.sync()
    assert not harness.calls("patch", "delete", "create")
    assert len(harness.recorder.messages("SuccessfulStopPod")) == 1
    assert harness.status()["replicaStatuses"]["Worker"]["failed"] == 1
    assert harness.queue.num_requeues("ns/job") == 0


def test_a_cache_that_does_not_show_it_stops_and_tells_of_nobody_twice(harness: Harness) -> None:
    fail_worker_1(harness)
    harness.api.mute("pods")
    for _ in range(3):
        harness.controller.sync_tfjob("ns/job")
    assert len(harness.recorder.messages("SuccessfulStopPod")) == 1
    assert harness.queue.num_requeues("ns/job") > 0, "the cache will show it"


@pytest.mark.parametrize(
    "refusal",
    [
        api_error(403, "Forbidden", "policy says no"),
        api_error(422, "Invalid", "no"),
        api_error(500, "", "hook is down"),
    ],
)
def test_a_refusal_is_told_once_and_tried_again(harness: Harness, refusal: Exception) -> None:
    fail_worker_1(harness)
    harness.api.fail("patch", "pods", refusal, times=6)
    for _ in range(3):
        harness.sync()
        assert harness.queue.num_requeues("ns/job") > 0
    [message] = harness.recorder.messages("FailedStopPod")
    assert message.startswith("Error stopping pods: ")
    assert "(and 1 more)" in message
    assert harness.condition("Failed")["reason"] == "TFJobFailed"
    assert not harness.recorder.messages("SuccessfulStopPod")
    harness.sync()
    assert len(harness.recorder.messages("SuccessfulStopPod")) == 1
    assert harness.queue.num_requeues("ns/job") == 0


def test_a_pod_that_has_begun_since_it_was_seen_pending_is_not_deleted(harness: Harness) -> None:
    harness.submit_and_sync(Worker=2)
    harness.play_kubelet("job-worker-0", "Failed", exit_code=1)
    harness.api.mute("pods")
    harness.api.edit(PODS, "ns", "job-worker-1", {"status": {"phase": "Running"}})
    harness.controller.sync_tfjob("ns/job")
    assert harness.api.count("delete", "pods") == 1
    assert len(harness.api.names(PODS)) == 2
    assert not harness.recorder.messages("FailedDeletePod")
    assert harness.queue.num_requeues("ns/job") > 0


def test_the_end_is_written_before_it_is_told_and_before_anything_is_stopped(harness: Harness) -> None:
    fail_worker_1(harness)
    harness.api.fail("replace", "tfjobs", api_error(503), times=1)
    harness.sync()
    assert not harness.api.count("patch", "pods")
    assert not harness.recorder.messages("TFJobFailed")
    harness.sync(times=2)
    assert harness.api.count("patch", "pods") == 2
    assert len(harness.recorder.messages("TFJobFailed")) == 1


def test_a_pod_that_has_gone_meanwhile_needs_no_stopping(harness: Harness) -> None:
    fail_worker_1(harness, workers=2)
    harness.api.fail("patch", "pods", api_error(404, "NotFound", "gone"))
    harness.sync()
    assert not harness.recorder.messages("FailedStopPod")
    assert harness.queue.num_requeues("ns/job") > 0
    harness.sync()
    assert len(harness.recorder.messages("SuccessfulStopPod")) == 1
