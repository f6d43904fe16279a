from __future__ import annotations

import json
from typing import Any

import pytest

from tfoperator.launcher.core.output import ContainerEnd
from tfoperator.launcher.platforms.kubernetes.pod_status import (
    PodView,
    container_end,
    decode_pod_view,
    has_started,
    lost_end,
    pending,
)

Json = dict[str, Any]


def pod(
    phase: str,
    state: Json | None = None,
    *,
    policy: str = "Never",
    meta: Json | None = None,
    node: str = "n",
    **status: Any,
) -> PodView:
    main = [{"name": "main", "imageID": "i@sha256:1", "state": state}] if state is not None else []
    body = {
        "metadata": {"name": "p", "namespace": "ns", **(meta or {})},
        "spec": {"restartPolicy": policy, "nodeName": node},
        "status": {"phase": phase, "containerStatuses": main, **status},
    }
    return decode_pod_view(json.dumps(body).encode())


def ended(code: int, reason: str = "", message: str = "") -> Json:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


RUNNING: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}]


@pytest.mark.parametrize(
    ("view", "code", "lost", "words"),
    [
        (pod("Succeeded", ended(0)), 0, False, ""),
        (pod("Succeeded"), 0, False, ""),
        (pod("Running", ended(0)), 0, False, ""),
        (pod("Failed", ended(3, "Error")), 3, False, ""),
        (pod("Failed", ended(3, "Error", "no table")), 3, False, "no table"),
        (pod("Failed", ended(137, "OOMKilled")), 137, False, "OOMKilled"),
        (pod("Failed", reason="DeadlineExceeded", message="too long"), None, False, "DeadlineExceeded: too long"),
        (
            pod("Failed", initContainerStatuses=[{"name": "setup", "state": ended(2)}]), None, False,
            "init container setup ended with 2",
        ),
        (pod("Failed", ended(137), reason="Evicted", message="low on memory"), None, True, "Evicted"),
        (pod("Failed", reason="NodeLost"), None, True, "NodeLost"),
        (pod("Failed", reason="OutOfcpu"), None, True, "OutOfcpu"),
        (pod("Failed", ended(143), conditions=DISRUPTED), None, True, "PreemptionByScheduler"),
        (pod("Running", ended(143), meta=DELETED), None, True, "deleted"),
        (pod("Failed", ended(137, "ContainerStatusUnknown")), None, True, "lost the container"),
        (pod("Succeeded", ended(0), meta=DELETED, conditions=DISRUPTED), 0, False, ""),
    ],
)  # fmt: skip
def test_how_a_container_has_ended(view: PodView, code: int | None, lost: bool, words: str) -> None:
    end = container_end(view)
    assert (end.exit_code, end.lost) == (code, lost)
    assert words in end.message


@pytest.mark.parametrize(
    "view",
    [
        pod("Pending"),
        pod("Running", RUNNING),
        pod("Running", RUNNING, meta=DELETED),
        pod("Running", ended(1), policy="OnFailure"),
        pod("Running", {"waiting": {"reason": "CrashLoopBackOff"}}, policy="OnFailure"),
    ],
)
def test_what_has_not_ended(view: PodView) -> None:
    assert container_end(view) is None


def test_a_termination_message_that_is_a_document_is_output_json_and_no_explanation() -> None:
    end = container_end(pod("Failed", ended(1, "Error", ' {"error_status": {}}')))
    assert (end.output, end.message, end.image_id) == (b' {"error_status": {}}', "", "i@sha256:1")


def test_a_pod_that_is_gone_was_lost_unless_it_had_succeeded() -> None:
    assert lost_end(None, "ns/p").lost
    assert lost_end(pod("Running", RUNNING), "ns/p").lost
    assert lost_end(pod("Failed", ended(1)), "ns/p").lost
    assert lost_end(pod("Succeeded", ended(0)), "ns/p") == ContainerEnd(0, image_id="i@sha256:1")


@pytest.mark.parametrize(
    ("view", "limit", "words"),
    [
        (pod("Pending", node=""), "schedule", "no node"),
        (
            pod("Pending", node="", conditions=[
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
            ]),
            "schedule", "Unschedulable: 0/3 nodes",
        ),
        (pod("Pending", {"waiting": {"reason": "ContainerCreating"}}), "start", "ContainerCreating"),
        (pod("Pending"), "start", "not started"),
        (pod("Pending", {"waiting": {"reason": "ErrImagePull", "message": "denied"}}), "image", "denied"),
        (pod("Pending", {"waiting": {"reason": "CreateContainerConfigError"}}), "image", "CreateContainerConfigError"),
        (pod("Pending", {"waiting": {"reason": "InvalidImageName"}}), "", "InvalidImageName"),
        (
            pod("Pending", {"waiting": {"reason": "PodInitializing"}}, initContainerStatuses=[
                {"name": "setup", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
            ]),
            "image", "ImagePullBackOff",
        ),
    ],
)  # fmt: skip
def test_what_a_pod_waits_for(view: PodView, limit: str, words: str) -> None:
    waits = pending(view)
    assert waits.limit == limit
    assert words in str(waits)


def test_what_has_started_waits_for_nothing() -> None:
    for view in (
        pod("Running", RUNNING),
        pod("Running", {"waiting": {"reason": "CrashLoopBackOff"}}, policy="OnFailure", containerStatuses=[
            {"name": "main", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        ]),
        pod("Failed"),
    ):  # fmt: skip
        assert pending(view) is None
    assert not has_started(pod("Pending", node=""))
    assert has_started(pod("Running", RUNNING))


def reporting(code: int, message: str, *, sidecars: int = 0, phase: str = "") -> PodView:
    """A pod that hands output.json back as its termination message."""
    main = {"name": "main", "terminationMessagePath": "/work/tmp/output.json"}
    body = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"restartPolicy": "Never", "containers": [main, *({"name": f"s{n}"} for n in range(sidecars))]},
        "status": {
            "phase": phase or ("Failed" if code else "Succeeded"),
            "containerStatuses": [{"name": "main", "state": ended(code, "", message)}],
        },
    }
    return decode_pod_view(json.dumps(body).encode())


def test_a_report_whose_head_the_kubelet_has_cut_is_no_success() -> None:
    whole = json.dumps({"error_status": {"code": "PERMANENT_ERROR", "message": "x" * 5000}})
    end = container_end(reporting(0, whole[-4096:]))
    assert end.output_cut
    assert end.output == whole[-4096:].encode()


def test_whatever_stands_in_the_file_of_the_report_is_the_report() -> None:
    end = container_end(reporting(0, "Error on reading termination log /x: permission denied"))
    assert end is not None
    assert end.output is not None
    refused = container_end(reporting(128, "exec: no such file"))
    assert (refused.output, refused.message) == (None, "exec: no such file")


@pytest.mark.parametrize(
    ("sidecars", "size", "cut"),
    [(0, 4095, False), (0, 4096, True), (4, 2456, False), (4, 2457, True), (3, 3071, False), (3, 3072, True)],
)
def test_many_containers_share_what_a_pod_may_say(sidecars: int, size: int, cut: bool) -> None:
    end = container_end(reporting(0, "{" + " " * (size - 2) + "}", sidecars=sidecars))
    assert end.output_cut is cut
