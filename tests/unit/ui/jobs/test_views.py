"""Jobs and pods as the page gets them."""

from typing import Any

import msgspec
import pytest

from tests.support.stage import Stage, condition, train
from tests.unit.controller.builders import NOW
from tfoperator.api.v1.types import TFJob, decode_tfjob
from tfoperator.api.waiting import Reason, ReasonKind, waiting_for
from tfoperator.kube.protocol.resources import PODS
from tfoperator.ui.jobs.objects import decode_pod
from tfoperator.ui.jobs.views import job_detail, job_row, replica_rows
from tfoperator.ui.streaming import MAX_TEXT


def seen(name: str = "mnist", **parts: Any) -> TFJob:
    return decode_tfjob(msgspec.json.encode(Stage().job(name, **parts)))


@pytest.mark.parametrize(
    ("conditions", "state", "message"),
    [
        ([], "Pending", "The operator has not read this job yet."),
        ([condition("Created", "made")], "Created", "made"),
        ([condition("Created", "made"), condition("Running", "no room", "False")], "Created", "no room"),
        ([condition("Running", "it runs")], "Running", "it runs"),
        ([condition("Running", "it ran", "False"), condition("Failed", "exit 1")], "Failed", "exit 1"),
        ([condition("Running", "it runs"), condition("Stalled", "one is behind")], "Stalled", "one is behind"),
    ],
)
def test_a_job_says_what_it_does_or_waits_for(conditions: list[Any], state: str, message: str) -> None:
    row = job_row(seen(status={"conditions": conditions}))
    assert (row["state"], row["message"]) == (state, message)


def test_what_a_job_reports_is_handed_on_what_it_does_not_is_absent_and_messages_are_cut() -> None:
    progress = {"percentage": 3, "metrics": [{"name": "loss", "value": "1"}]}
    row = msgspec.json.encode(job_row(seen(status={"progress": progress})))
    assert msgspec.json.decode(row)["progress"] == progress
    assert job_row(seen(status={"progress": ["no", "object"]}))["progress"] is None
    detail = job_detail(seen())
    assert (detail["progress"], detail["tensorBoard"], detail["queue"]) == (None, None, "")
    row = job_row(seen(status={"conditions": [condition("Failed", "x" * 100_000)]}))
    assert len(row["message"]) < MAX_TEXT + 10


@pytest.mark.parametrize(
    ("url", "shown", "framed"),
    [
        ("http://127.0.0.1:6006/", True, True),
        ("http://localhost:6006/", True, True),
        ("http://mnist-tensorboard.default.svc", True, False),
        ("https://boards.example/mnist", True, False),
        ("http://127.0.0.1.evil.example/", True, False),
        ("http://127.0.0.1@evil.example/", True, False),
        ("javascript:alert(1)", False, False),
        ("data:text/html,x", False, False),
        ("file:///etc/passwd", False, False),
        ("http://[", False, False),
    ],
)
def test_only_web_addresses_are_links_and_only_this_machine_is_framed(url: str, shown: bool, framed: bool) -> None:
    board = job_detail(seen(status={"tensorBoard": {"url": url, "ready": True}}), local=True)["tensorBoard"]
    assert bool(board and board["url"]) == shown
    assert bool(board and board["framed"]) == framed


def test_replicas_are_in_the_order_of_people_with_those_that_lack_a_pod() -> None:
    stage = Stage()
    job = train(stage, workers=12)
    for index in (3, 11):
        stage.remove(PODS, "default", f"mnist-worker-{index}")
    pods = [decode_pod(msgspec.json.encode(pod)) for pod in stage.objects(PODS)]
    rows = replica_rows(decode_tfjob(msgspec.json.encode(job)), pods, {}, [], NOW)
    assert [row["name"] for row in rows[:4]] == ["worker-0", "worker-1", "worker-2", "worker-4"]
    assert [(row["name"], row["state"]) for row in rows[-2:]] == [("worker-3", "No pod"), ("worker-11", "No pod")]


def test_restarts_of_a_sidecar_are_none_of_the_replica() -> None:
    stage = Stage()
    job = train(stage, workers=1)
    [pod] = stage.objects(PODS)
    counts = [{"name": name, "restartCount": count} for name, count in (("proxy", 4), ("tensorflow", 1))]
    shown = decode_pod(msgspec.json.encode(pod | {"status": pod["status"] | {"containerStatuses": counts}}))
    [row] = replica_rows(decode_tfjob(msgspec.json.encode(job)), [shown], {}, [], NOW)
    assert row["restarts"] == 1


def test_a_replica_without_a_pod_has_the_reason_of_the_condition() -> None:
    reason = Reason(ReasonKind.QUOTA, "ResourceQuota few has no room for its pod", "request less")
    waiting = msgspec.to_builtins(waiting_for([("Worker", 1, reason)]))
    stage = Stage()
    job = decode_tfjob(msgspec.json.encode(stage.job("mnist", status={"waiting": waiting})))
    assert [row["why"] for row in replica_rows(job, [], {}, [], NOW)] == ["", str(reason)]
    assert job_detail(job)["hasReport"]
