"""The timeline of a replica, from successive states of its pods."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.replicas.names import ANNOTATION_STOPPED
from tfoperator.ui.jobs.objects import SeenPod, decode_pod
from tfoperator.ui.jobs.timeline import PodRecord, observe, spans

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def pod(restarts: int = 0, state: Any = None, last: Any = None, phase: str = "Running", stopped: str = "") -> SeenPod:
    statuses = [{"name": "tensorflow", "restartCount": restarts, "state": state or {}, "lastState": last or {}}]
    body: dict[str, Any] = {
        "metadata": {"name": "mnist-worker-0", "uid": "u1", "creationTimestamp": at(0)},
        "spec": {"activeDeadlineSeconds": 1} if stopped else {},
        "status": {"phase": phase, "containerStatuses": statuses},
    }
    if stopped:
        body["metadata"]["annotations"] = {ANNOTATION_STOPPED: stopped}
    return decode_pod(msgspec.json.encode(body))


def running(since: float) -> Any:
    return {"running": {"startedAt": at(since)}}


def ended(since: float, until: float, code: int, reason: str = "Error") -> Any:
    return {"terminated": {"startedAt": at(since), "finishedAt": at(until), "exitCode": code, "reason": reason}}


def waiting(reason: str, message: str = "") -> Any:
    return {"waiting": {"reason": reason, "message": message}}


def life(*seen: SeenPod) -> PodRecord:
    record = None
    for seen_pod in seen:
        record = observe(seen_pod, "worker-0", record, at(1000))
    assert record is not None
    return record


def shown(record: PodRecord) -> list[tuple[str, float, float | None, str]]:
    def seconds(moment: datetime | None) -> float | None:
        return None if moment is None else (moment - START).total_seconds()

    return [(span.state, seconds(span.start) or 0.0, seconds(span.end), span.why) for span in spans([record])]


def test_spans_say_what_a_pod_waits_for_how_it_ended_and_whether_the_end_of_its_job_stopped_it() -> None:
    shown_spans = shown(life(pod(state=waiting("ImagePullBackOff", "no such image"), phase="Pending")))
    [(state, start, end, why)] = shown_spans
    assert (state, start, end) == ("pending", 0, None)
    assert why.startswith(
        'ImagePullBackOff: its image can\'t be pulled: the registry does not have this image ("no such image")'
    )
    shown_spans = shown(life(pod(state=running(5)), pod(state=ended(5, 60, 0, "Completed"), phase="Succeeded")))
    assert shown_spans == [("pending", 0, 5, ""), ("succeeded", 5, 60, "exit code 0")]
    end = {"state": ended(5, 60, 143), "last": ended(0, 4, 3), "phase": "Failed"}
    assert [span[0] for span in shown(life(pod(1, **end, stopped="job-failed")))] == ["failed", "waiting", "stopped"]
    assert [span[0] for span in shown(life(pod(1, **end, stopped="replica-ended")))] == ["failed", "waiting", "failed"]


def test_restarts_keep_runs_that_the_pod_has_forgotten() -> None:
    record = life(
        pod(state=running(5)),
        pod(0, waiting("CrashLoopBackOff", "back-off"), ended(5, 20, 3)),
        pod(1, running(30), ended(5, 20, 3)),
        # Kubelets count the restart at the end of the wait, the local node at its beginning: it makes no difference.
        pod(2, waiting("CrashLoopBackOff", "back-off"), ended(30, 40, 137, "OOMKilled")),
        pod(2, running(60), ended(30, 40, 137, "OOMKilled")),
    )
    assert [span[:3] for span in shown(record)] == [
        ("pending", 0, 5),
        ("failed", 5, 20),
        ("waiting", 20, 30),
        ("failed", 30, 40),
        ("waiting", 40, 60),
        ("running", 60, None),
    ]
    # Each of these ends was followed by a restart in place.
    assert [shown(record)[index][3] for index in (1, 3, 5)] == [
        "exit code 3; restarted in place",
        "exit code 137, OOMKilled; restarted in place",
        "",
    ]


def test_runs_that_begin_in_the_same_second_are_runs_of_their_own() -> None:
    """Kubernetes' times are whole seconds, and a kubelet's first restart comes at once."""
    late = shown(life(pod(1, ended(5, 7, 143), ended(5, 5, 1), phase="Failed")))
    assert late == [
        ("pending", 0, 5, ""),
        ("failed", 5, 5, "exit code 1; restarted in place"),
        ("failed", 5, 7, "exit code 143"),
    ]
    live = shown(
        life(
            pod(state=running(5)),
            pod(1, running(5), ended(5, 5, 1)),
            pod(1, waiting("CrashLoopBackOff"), ended(5, 7, 2)),
            pod(2, running(7), ended(5, 7, 2)),
            pod(2, running(7), ended(5, 7, 2)),
            pod(3, running(7), ended(7, 7, 2)),
            pod(3, state=ended(7, 7, 0, "Completed"), last=ended(7, 7, 2)),
        )
    )
    assert [span[:3] for span in live] == [
        ("pending", 0, 5),
        ("failed", 5, 5),
        ("failed", 5, 7),
        ("failed", 7, 7),
        ("succeeded", 7, 7),
    ]


def test_a_life_goes_on_has_unknown_runs_before_the_first_look_and_ends_with_the_pod() -> None:
    waits = life(pod(1, waiting("CrashLoopBackOff", "back-off 10s"), ended(5, 20, 3)))
    message = (
        "CrashLoopBackOff: exit code 3. Next: read the log of the container: kubectl logs POD -c tensorflow --previous"
    )
    assert shown(waits)[-1] == ("waiting", 20, None, message)
    late = life(pod(4, running(90), ended(60, 80, 1)))
    why = "the container's earlier starts are not recorded (the kubelet restarted the container 4 times)"
    assert shown(late)[0] == ("pending", 0, 60, why)
    deleted = msgspec.structs.replace(life(pod(state=running(5))), gone=at(70))
    assert shown(deleted)[-1] == ("running", 5, 70, "")


STATES = st.sampled_from(["", "running", "terminated", "waiting"])
LOOKS = st.tuples(st.integers(0, 5), STATES, st.integers(0, 100), st.integers(0, 50), st.booleans())


@given(st.lists(LOOKS, min_size=1, max_size=8))
def test_spans_are_in_order_and_never_end_before_they_begin(seen: list[tuple[int, str, int, int, bool]]) -> None:
    pods = []
    for restarts, state, since, length, has_last in seen:
        until = since + length
        states = {
            "running": running(since),
            "terminated": ended(since, until, 1),
            "waiting": waiting("CrashLoopBackOff"),
        }
        pods.append(pod(restarts, states.get(state), ended(since, until, 2) if has_last else None))
    all_spans = list(spans([life(*pods)]))
    assert [span.start for span in all_spans] == sorted(span.start for span in all_spans)
    assert all(span.end is None or span.end >= span.start for span in all_spans)
    assert sum(1 for span in all_spans if span.end is None) <= 1
