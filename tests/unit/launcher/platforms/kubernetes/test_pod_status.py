import json
from typing import Any

import pytest

from tfoperator.kube.views.event import Event, decode_event
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
    limit: int | None = None,
    **status: Any,
) -> PodView:
    main = [{"name": "main", "imageID": "i@sha256:1", "state": state}] if state is not None else []
    status = {"phase": phase, "containerStatuses": main, **status}
    spec: Json = {"restartPolicy": policy, "nodeName": node}
    return view_of(spec if limit is None else {**spec, "activeDeadlineSeconds": limit}, status, **meta or {})


def view_of(spec: Json, status: Json, **meta: Any) -> PodView:
    body = {"metadata": {"name": "p", "namespace": "ns", **meta}, "spec": spec, "status": status}
    return decode_pod_view(json.dumps(body).encode())


def ended(code: int, reason: str = "", message: str = "", at: int | None = None) -> Json:
    state = {"exitCode": code, "reason": reason, "message": message}
    return {"terminated": state if at is None else {**state, "finishedAt": moment(at)}}


def moment(seconds: int) -> str:
    """A time of Kubernetes, so many seconds after the pod was bound and accepted."""
    return f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"


def deletion(requested: int, grace: int = 30) -> Json:
    """The metadata of a pod whose deletion was requested then."""
    return {"deletionTimestamp": moment(requested + grace), "deletionGracePeriodSeconds": grace}


def disruption(at: int | None, reason: str = "EvictionByEvictionAPI", status: str = "True") -> Json:
    condition = {"type": "DisruptionTarget", "status": status, "reason": reason, "message": "drained"}
    return condition if at is None else {**condition, "lastTransitionTime": moment(at)}


def waits(reason: str, **more: str) -> Json:
    return {"waiting": {"reason": reason, **more}}


def setup(state: Json) -> list[Json]:
    """The states of init containers."""
    return [{"name": "setup", "state": state}]


RUNNING: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
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
            pod("Failed", initContainerStatuses=setup(ended(2))),
            None,
            False,
            "init container setup ended with exit code 2",
        ),
        (pod("Failed", ended(137), reason="Evicted", message="low on memory"), None, True, "Evicted"),
        (pod("Failed", reason="NodeLost"), None, True, "NodeLost"),
        (pod("Failed", reason="OutOfcpu"), None, True, "OutOfcpu"),
        (pod("Failed", ended(143), conditions=DISRUPTED), None, True, "PreemptionByScheduler"),
        (pod("Running", ended(143), meta=DELETED), None, True, "deleted"),
        (pod("Failed", ended(137, "ContainerStatusUnknown")), None, True, "was lost on its node"),
        (pod("Succeeded", ended(0), meta=DELETED, conditions=DISRUPTED), None, True, "PreemptionByScheduler"),
    ],
)
def test_how_a_container_has_ended(view: PodView, code: int | None, lost: bool, words: str) -> None:
    end = container_end(view)
    assert (end.exit_code, end.lost) == (code, lost)
    assert words in end.message


DONE = ended(0, "Completed", at=60)
LIMITED = {"reason": "DeadlineExceeded", "message": "too long", "startTime": moment(0)}
BEHIND = {
    "startTime": "2025-12-31T23:59:50Z",
    "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": moment(0)}],
}


@pytest.mark.parametrize(
    ("view", "result", "words"),
    [
        # Deleted: by a person, a drain without evictions, a garbage collector.
        (pod("Succeeded", DONE, meta=deletion(61)), "succeeded", ""),
        (pod("Succeeded", DONE, meta=deletion(60)), "lost", "deleted"),
        (pod("Succeeded", DONE, meta=deletion(59)), "lost", "deleted"),
        (pod("Running", DONE, meta=deletion(61)), "succeeded", ""),
        (pod("Running", DONE, meta=deletion(59)), "lost", "deleted"),
        (pod("Succeeded", DONE, meta=deletion(61, grace=2)), "succeeded", ""),
        (pod("Succeeded", DONE, meta=deletion(60, grace=2)), "lost", "deleted"),
        # The last request shortened the period; the first request may be older than the end.
        (pod("Succeeded", DONE, meta=deletion(90, grace=1)), "lost", "deleted"),
        (pod("Succeeded", DONE, meta=deletion(90, grace=0)), "lost", "deleted"),
        (pod("Succeeded", ended(0), meta=deletion(61)), "lost", "deleted"),
        (pod("Succeeded", meta=deletion(61)), "lost", "deleted"),
        (pod("Succeeded", DONE, meta=deletion(61) | {"deletionGracePeriodSeconds": 1 << 60}), "lost", "deleted"),
        # Disrupted: evicted through the API, preempted, its node tainted or shut down.
        (pod("Succeeded", DONE, conditions=[disruption(61)]), "succeeded", ""),
        (pod("Succeeded", DONE, conditions=[disruption(60)]), "lost", "EvictionByEvictionAPI"),
        (pod("Succeeded", DONE, conditions=[disruption(None)]), "lost", "EvictionByEvictionAPI"),
        (pod("Succeeded", DONE, conditions=[disruption(59, status="False")]), "succeeded", ""),
        (pod("Succeeded", DONE, meta=deletion(61), conditions=[disruption(59)]), "lost", "EvictionByEvictionAPI"),
        (pod("Succeeded", DONE, meta=deletion(61), conditions=[disruption(61)]), "succeeded", ""),
        # Ended by its kubelet: evicted for memory or disk, shut down with its node, refused after a restart.
        (pod("Failed", DONE, reason="Evicted", message="low on memory"), "lost", "Evicted"),
        (pod("Failed", DONE, reason="Terminated", message="imminent node shutdown"), "lost", "Terminated"),
        (pod("Failed", DONE, reason="NodeShutdown"), "lost", "NodeShutdown"),
        (pod("Succeeded", DONE, reason="Terminated"), "lost", "Terminated"),
        (
            pod("Failed", DONE, reason="Terminated", conditions=[disruption(59, "TerminationByKubelet")]),
            "lost",
            "TerminationByKubelet",
        ),
        (pod("Succeeded", DONE, conditions=[disruption(61, "TerminationByKubelet")]), "lost", "TerminationByKubelet"),
        (pod("Succeeded", DONE, conditions=[disruption(90, "TerminationByKubelet")]), "lost", "TerminationByKubelet"),
        # Another container failed.
        (pod("Failed", DONE), "succeeded", ""),
        # Its own time limit.
        (pod("Failed", DONE, limit=61, **LIMITED), "succeeded", ""),
        (pod("Failed", DONE, limit=60, **LIMITED), "timed out", "DeadlineExceeded: too long"),
        (pod("Failed", DONE, limit=10, **LIMITED), "timed out", "DeadlineExceeded: too long"),
        (pod("Failed", DONE, **LIMITED), "timed out", "DeadlineExceeded: too long"),
        (pod("Failed", DONE, limit=10, meta=deletion(30), **LIMITED), "lost", "deleted"),
        (pod("Failed", DONE, limit=10, meta=deletion(90), **LIMITED), "timed out", "DeadlineExceeded"),
        # The node's clock is ten seconds behind: the program ended at 70 by the API server's.
        (pod("Succeeded", DONE, meta=deletion(71), **BEHIND), "lost", "deleted"),
        (pod("Succeeded", DONE, meta=deletion(72), **BEHIND), "succeeded", ""),
        (pod("Succeeded", DONE, **BEHIND), "succeeded", ""),
        # The node's clock is ahead, or the pod waited for its node: that shows no lag.
        (pod("Succeeded", DONE, meta=deletion(61), startTime=moment(50)), "succeeded", ""),
    ],
)
def test_exit_code_0_is_a_success_only_before_the_pod_was_told_to_end(view: PodView, result: str, words: str) -> None:
    end = container_end(view)
    outcome = "succeeded" if end.exit_code == 0 else "lost" if end.lost else "timed out" if end.timed_out else "?"
    assert (outcome, end.exit_code) == (result, 0 if result == "succeeded" else None)
    assert words in end.message
    assert end.image_id in ("i@sha256:1", "")


def pod_event(reason: str, first: int, last: int | None = None, part: str = "spec.containers{main}") -> Event:
    """An event of the kubelet's; `last` is when it happened again."""
    times = {"firstTimestamp": moment(first), "lastTimestamp": moment(first if last is None else last)}
    about = {"involvedObject": {"fieldPath": part}}
    return decode_event(json.dumps({"reason": reason, "message": "Stopping", **about, **times}).encode())


@pytest.mark.parametrize(
    ("events", "result"),
    [
        ([], "succeeded"),
        ([pod_event("Killing", 59)], "lost"),
        ([pod_event("Killing", 60)], "lost"),
        ([pod_event("Killing", 61)], "succeeded"),
        ([pod_event("Killing", 59, 62)], "lost"),
        ([pod_event("Killing", 20)], "succeeded"),
        ([pod_event("Killing", 20, 59)], "lost"),
        ([pod_event("Killing", 59, part="spec.containers{side}")], "succeeded"),
        ([pod_event("Killing", 59, part="spec.initContainers{main}")], "succeeded"),
        ([pod_event("Started", 59)], "succeeded"),
        ([pod_event("Evicted", 59, part="")], "lost"),
        ([pod_event("Preempting", 59, part="")], "lost"),
        ([pod_event("Evicted", 61, part="")], "succeeded"),
    ],
)
def test_what_a_kubelet_says_in_events_alone_counts_for_the_run_that_it_was_said_to(
    events: list[Event], result: str
) -> None:
    """Its last run lasted from 30 to 60."""
    done = {"terminated": {**DONE["terminated"], "startedAt": moment(30)}}
    end = container_end(pod("Succeeded", done), events=events)
    assert ("lost" if end.lost else "succeeded", end.exit_code) == (result, 0 if result == "succeeded" else None)
    failed = {"terminated": {**done["terminated"], "exitCode": 3}}
    assert container_end(pod("Failed", failed), events=events).exit_code == 3


@pytest.mark.parametrize(
    "view",
    [
        pod("Pending"),
        pod("Running", RUNNING),
        pod("Running", RUNNING, meta=DELETED),
        pod("Running", ended(1), policy="OnFailure"),
        pod("Running", waits("CrashLoopBackOff"), policy="OnFailure"),
    ],
)
def test_what_has_not_ended(view: PodView) -> None:
    assert container_end(view) is None


def test_a_document_as_termination_message_or_report_is_output_json_also_without_its_head() -> None:
    end = container_end(pod("Failed", ended(1, "Error", ' {"error_status": {}}')))
    assert (end.output, end.message, end.image_id) == (b' {"error_status": {}}', "", "i@sha256:1")
    whole = json.dumps({"error_status": {"code": "PERMANENT_ERROR", "message": "x" * 5000}})
    end = container_end(reporting(0, whole[-4096:]))
    assert (end.output, end.output_cut) == (whole[-4096:].encode(), True)
    assert container_end(reporting(0, "Error on reading termination log /x: permission denied")).output is not None
    refused = container_end(reporting(128, "exec: no such file"))
    assert (refused.output, refused.message) == (None, "exec: no such file")


def test_a_pod_that_is_gone_was_lost_unless_it_had_succeeded_and_what_has_started_waits_for_nothing() -> None:
    assert lost_end(None, "ns/p").lost
    assert lost_end(pod("Running", RUNNING), "ns/p").lost
    assert lost_end(pod("Failed", ended(1)), "ns/p").lost
    assert lost_end(pod("Succeeded", ended(0)), "ns/p") == ContainerEnd(0, image_id="i@sha256:1")
    assert lost_end(pod("Succeeded", DONE, meta=deletion(60)), "ns/p").lost
    again = [{"name": "main", "restartCount": 1, "state": waits("CrashLoopBackOff")}]
    looping = pod("Running", policy="OnFailure", containerStatuses=again)
    assert [pending(view) for view in (pod("Running", RUNNING), looping, pod("Failed"))] == [None] * 3
    assert (has_started(pod("Pending", node="")), has_started(pod("Running", RUNNING))) == (False, True)


@pytest.mark.parametrize(
    ("view", "limit", "words"),
    [
        (pod("Pending", node=""), "schedule", "not found a node"),
        (pod("Pending", node="", conditions=[UNSCHEDULABLE]), "schedule", "Unschedulable: 0/3 nodes"),
        (pod("Pending", waits("ContainerCreating")), "start", "ContainerCreating"),
        (pod("Pending"), "start", "not started"),
        (pod("Pending", waits("ErrImagePull", message="denied")), "image", "denied"),
        (pod("Pending", waits("CreateContainerConfigError")), "image", "CreateContainerConfigError"),
        (pod("Pending", waits("InvalidImageName")), "", "InvalidImageName"),
        (
            pod("Pending", waits("PodInitializing"), initContainerStatuses=setup(waits("ImagePullBackOff"))),
            "image",
            "ImagePullBackOff",
        ),
    ],
)
def test_what_a_pod_waits_for(view: PodView, limit: str, words: str) -> None:
    waits = pending(view)
    assert waits.limit == limit
    assert words in str(waits)


def reporting(code: int, message: str, *, sidecars: int = 0) -> PodView:
    """A pod that hands output.json back as its termination message."""
    main = {"name": "main", "terminationMessagePath": "/work/tmp/output.json"}
    others = [{"name": f"s{n}"} for n in range(sidecars)]
    statuses = [{"name": "main", "state": ended(code, "", message)}]
    status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses}
    return view_of({"restartPolicy": "Never", "containers": [main, *others]}, status)


@pytest.mark.parametrize(
    ("sidecars", "size", "cut"),
    [(0, 4095, False), (0, 4096, True), (4, 2456, False), (4, 2457, True), (3, 3071, False), (3, 3072, True)],
)
def test_many_containers_share_what_a_pod_may_say(sidecars: int, size: int, cut: bool) -> None:
    end = container_end(reporting(0, "{" + " " * (size - 2) + "}", sidecars=sidecars))
    assert end.output_cut is cut
