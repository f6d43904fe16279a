from __future__ import annotations

import json

from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Tell


def test_it_tells_everything_that_helps_to_understand_a_job(tell: Tell, world: ServedWorld) -> None:
    world.submit(labels={"team": "vision"}, PS=1, Worker=4, condition="Created")
    world.becomes("Running", message="2 of 5 replicas run")
    world.status(
        {
            "startTime": "2026-01-01T00:00:00Z",
            "replicaStatuses": {"Worker": {"completedIndexes": "2", "restartCounts": {"2": 3}}},
        }
    )
    world.pod("worker-0", restarts=2)
    world.pod("worker-1", phase="Pending", waiting="ImagePullBackOff")
    world.event("Pod", "mnist-worker-1", "Failed", "can't pull", warning=True)
    said = tell("describe", "mnist", code=0)
    text = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "Labels: team=vision" in text
    assert "State: Running - 2 of 5 replicas run" in text
    assert "Asked for: 1 PS, 4 Worker" in text
    assert any(line.startswith("worker-0 Running yes 2 ") and line.endswith("last exit code 137") for line in text)
    assert any(line.startswith("worker-1 ImagePullBackOff no 0 ") and line.endswith("for a reason") for line in text)
    assert any(line.startswith("worker-2 Completed no 3 ") for line in text)
    assert any(line.startswith("worker-3 No pod no 0 ") for line in text)
    assert any(line.startswith("ps-0 No pod ") for line in text)
    assert any(line.startswith("Running True ") and line.endswith("TFJobRunning 2 of 5 replicas run") for line in text)
    assert any(line.endswith("Warning Failed pod/mnist-worker-1 can't pull") for line in text)


def test_a_job_that_nobody_has_taken_notice_of(tell: Tell, world: ServedWorld) -> None:
    world.submit()
    out = tell("describe", "mnist").out
    assert "none: is the operator running?" in out
    assert "State:        Pending" in out


def test_a_large_job_that_waits_does_not_fill_the_screen(tell: Tell, world: ServedWorld) -> None:
    world.submit(Worker=500)
    out = tell("describe", "mnist").out
    assert "worker: 480 more" in out
    assert len(out.splitlines()) < 50


def test_for_programs_it_is_the_job_its_pods_and_events(tell: Tell, world: ServedWorld) -> None:
    world.submit()
    world.pod("worker-0")
    world.event("TFJob", "mnist", "Tested", "said so")
    report = json.loads(tell("describe", "mnist", "-o", "json").out)
    assert report["job"]["metadata"]["name"] == "mnist"
    assert [pod["metadata"]["name"] for pod in report["pods"]] == ["mnist-worker-0"]
    assert [(event["reason"], event["kind"], event["count"]) for event in report["events"]] == [("Tested", "TFJob", 1)]


def test_a_missing_job_is_named(tell: Tell) -> None:
    said = tell("describe", "gone")
    assert (said.code, said.out) == (1, "")
    assert "there is no TFJob gone" in said.err


def test_the_address_of_a_tensorboard(tell: Tell, world: ServedWorld) -> None:
    world.submit()
    for ready, said in ((False, "http://board (not ready)"), (True, "http://board")):
        world.status({"tensorBoard": {"url": "http://board", "ready": ready}})
        assert f"TensorBoard:  {said}\n" in tell("describe", "mnist").out
