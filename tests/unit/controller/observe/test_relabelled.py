"""Pods whose labels somebody changed: the cache loses sight of them, or takes them for another replica."""

from __future__ import annotations

import pytest

from tests.support.controller_harness import Harness
from tfoperator.api.names import LABEL_OPERATOR_NAME, LABEL_REPLICA_INDEX
from tfoperator.kube.resources import PODS


def running(harness: Harness) -> None:
    harness.submit_and_sync(Worker=2, restart_policy="OnFailure")
    harness.run_all()


def test_a_pod_without_our_label_is_released_not_waited_for(harness: Harness) -> None:
    running(harness)
    harness.api.mute("pods")
    harness.api.edit(PODS, "ns", "job-worker-1", {"metadata": {"labels": {LABEL_OPERATOR_NAME: None}}})
    # What a watch with a selector makes of that.
    harness.informers.pods.informers[0].indexer.delete("ns/job-worker-1")
    harness.controller.sync_tfjob("ns/job")
    [pod] = [one for one in harness.api.objects(PODS) if one["metadata"]["name"] == "job-worker-1"]
    assert pod["metadata"]["ownerReferences"] == []
    assert "FailedCreatePod" in harness.recorder.reasons


@pytest.mark.parametrize("index", ["none", "0"])
def test_a_pod_that_stands_for_another_replica_now_is_not_taken_for_unseen(harness: Harness, index: str) -> None:
    running(harness)
    harness.api.edit(PODS, "ns", "job-worker-1", {"metadata": {"labels": {LABEL_REPLICA_INDEX: index}}})
    harness.sync()
    if index == "none":
        assert any("is labelled as something else" in message for _, _, message in harness.recorder.events)
        harness.api.remove(PODS, "ns", "job-worker-1")
        harness.catch_up()
    harness.sync()
    assert harness.api.names(PODS) == ["job-worker-0", "job-worker-1"]
    assert harness.informers.pods.lister.find("ns/job-worker-1").metadata.labels[LABEL_REPLICA_INDEX] == "1"
