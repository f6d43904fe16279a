from __future__ import annotations

import io
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from rich.console import Console

from tfoperator.api.names import LABEL_TENSORBOARD, replica_labels
from tfoperator.api.v1.types import JobCondition, ReplicaType, TensorBoardStatus, TFJob, TFJobStatus
from tfoperator.cli.console import LiveView, PlainView, ReplicaRow, make_view, replica_row
from tfoperator.kube.objects import ObjectMeta, Pod
from tfoperator.local.events_view import EventView
from tfoperator.local.log_follower import LogLine
from tfoperator.local.results import Outcome


def pod(name: str = "worker-0", *, deleted: bool = False, job: str = "digits", **status: Any) -> Pod:
    kind, index = name.split("-")
    meta = {
        "name": f"{job}-{name}",
        "namespace": "ns",
        "uid": f"{job}-{name}",
        "labels": replica_labels(job, ReplicaType(kind.capitalize()), int(index), is_master=False),
    }
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": meta, "status": status}, Pod)


def container(state: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "tensorflow", "state": state, **fields}


WAITING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2s"}}
LAST = {"terminated": {"exitCode": 137}}


@pytest.mark.parametrize(
    ("seen", "row"),
    [
        (pod(), ReplicaRow("worker-0", "Pending", False, 0)),
        (pod(phase="Running"), ReplicaRow("worker-0", "Running", False, 0)),
        (
            pod(phase="Running", containerStatuses=[container({"running": {}}, ready=True)]),
            ReplicaRow("worker-0", "Running", True, 0),
        ),
        (
            pod(phase="Running", containerStatuses=[container(WAITING, restartCount=2, lastState=LAST)]),
            ReplicaRow("worker-0", "CrashLoopBackOff", False, 2, "back-off 2s"),
        ),
        (
            pod(phase="Running", containerStatuses=[container({}, ready=True, restartCount=1, lastState=LAST)]),
            ReplicaRow("worker-0", "Running", True, 1, "last exit code 137"),
        ),
        (
            pod(phase="Failed", containerStatuses=[container({"terminated": {"exitCode": 3}})]),
            ReplicaRow("worker-0", "Failed", False, 0, "exit code 3"),
        ),
        (pod(phase="Running", deleted=True), ReplicaRow("worker-0", "Stopping", False, 0)),
    ],
)
def test_a_pod_in_words(seen: Pod, row: ReplicaRow) -> None:
    assert replica_row(seen) == row


def job(*conditions: tuple[str, str], at: int = 1) -> TFJob:
    when = datetime(2026, 1, at, tzinfo=UTC)
    return TFJob(
        metadata=ObjectMeta(name="digits", uid="u"),
        status=TFJobStatus(
            conditions=tuple(JobCondition(t, "True", "R", m, last_transition_time=when) for t, m in conditions)
        ),
    )


def event(message: str, *, kind: str = "Normal", about: str = "digits-worker-0", count: int = 1) -> EventView:
    return msgspec.convert(
        {
            "metadata": {"name": "e"},
            "type": kind,
            "reason": "Why",
            "message": message,
            "count": count,
            "involvedObject": {"kind": "Pod", "namespace": "ns", "name": about},
        },
        EventView,
    )


def line(text: str, name: str = "worker-0", container: str = "tensorflow") -> LogLine:
    return LogLine("ns", f"digits-{name}", container, 0, text)


def test_plain_lines_say_who_and_what() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    view.job_changed(job(("Created", "made")))
    view.pod_changed(pod())
    view.logged([line("step 1"), line("[red]not markup[/red]"), line("hm", container="sidecar"), line("?", "ps-9")])
    view.event(event("trouble", kind="Warning", count=3))
    view.event(event("fine", about="digits-unknown"))
    view.stopping(Outcome.INTERRUPTED)
    assert stream.getvalue().splitlines() == [
        "[digits] Created: made",
        "[worker-0] step 1",
        "[worker-0] [red]not markup[/red]",
        "[worker-0/sidecar] hm",
        "[ps-9] ?",
        "[worker-0] warning: Why: trouble (x3)",
        "[digits-unknown] event: Why: fine",
        "[tfoperator] stopping the job in order; once more to stop it at once",
    ]


def test_a_condition_is_shown_once_until_it_becomes_true_again_and_events_do_not_repeat_it() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    view.job_changed(job(("Created", "made")))
    view.job_changed(job(("Created", "made"), ("Running", "runs")))
    view.event(event("runs"))
    view.job_changed(job(("Created", "made"), ("Running", "runs")))
    assert stream.getvalue().count("\n") == 2
    view.job_changed(job(("Running", "runs"), at=2))
    assert stream.getvalue().splitlines()[2:] == ["[digits] Running: runs"]


def test_with_several_jobs_a_prefix_names_the_job() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    view.job_changed(job(("Created", "made")))
    view.job_changed(msgspec.structs.replace(job(), metadata=ObjectMeta(name="other", uid="o")))
    view.pod_changed(pod())
    view.logged([line("x"), line("before the news of its pod", "ps-9")])
    said = stream.getvalue().splitlines()
    assert said[-2:] == ["[digits/worker-0] x", "[digits/ps-9] before the news of its pod"]


def live(width: int = 80, height: int = 24, **options: Any) -> tuple[LiveView, io.StringIO]:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, height=height, **options)
    return LiveView(console), stream


def test_the_table_shows_every_replica_and_what_is_wrong_with_it() -> None:
    view, stream = live()
    view.pod_changed(pod("worker-0", phase="Running", containerStatuses=[container({"running": {}}, ready=True)]))
    view.pod_changed(pod("worker-1", phase="Running", containerStatuses=[container(WAITING, restartCount=2)]))
    view._drawn = 0.0
    view.tick()
    view.close()
    shown = stream.getvalue()
    assert "worker-0" in shown
    assert "CrashLoopBackOff" in shown
    assert "1/2" in shown


def test_the_table_leaves_room_for_what_the_terminal_echoes_at_ctrl_c() -> None:
    view, stream = live(width=40)
    waiting = container({"waiting": {"reason": "ImagePullBackOff", "message": "no such image " * 9}})
    view.pod_changed(pod("worker-0", phase="Pending", containerStatuses=[waiting]))
    view._drawn = 0.0
    view.tick()
    view.close()
    drawn = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", one) for one in re.split("[\r\n]+", stream.getvalue())]
    assert max(len(one) for one in drawn) == 38


def test_a_large_job_does_not_fill_the_screen() -> None:
    view, stream = live(height=20)
    for index in range(50):
        view.pod_changed(pod(f"worker-{index}", phase="Running"))
    view._drawn = 0.0
    view.tick()
    view.close()
    assert "+43 more" in stream.getvalue()
    assert "43 Running" in stream.getvalue()


def test_container_output_keeps_its_colours_but_is_no_markup() -> None:
    view, stream = live(color_system="truecolor")
    view.pod_changed(pod())
    view.logged([line("\x1b[31mred\x1b[0m [bold]plain[/bold]")])
    view.close()
    assert "\x1b[31mred" in stream.getvalue()
    assert "[bold]plain[/bold]" in stream.getvalue()


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    view, stream = live(color_system="truecolor")
    view.pod_changed(pod())
    view.logged([line("text")])
    view.close()
    assert "\x1b[36m" not in stream.getvalue()
    assert "text" in stream.getvalue()


def test_without_a_terminal_the_view_is_plain() -> None:
    assert isinstance(make_view(io.StringIO()), PlainView)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bcreset", "reset"),
        ("\x1b(0box", "box"),
        ("\x1bPstring\x1b\\text", "text"),
        ("bell\x07 shift\x0e c1\x9b31m", "bell\ufffd shift\ufffd c1\ufffd31m"),
        ("broken off \x1b", "broken off \ufffd"),
    ],
)
def test_container_output_can_not_garble_the_terminal(printed: str, shown: str) -> None:
    view, stream = live(color_system=None)
    before = stream.getvalue()
    view.pod_changed(pod())
    view.logged([line(printed)])
    said = stream.getvalue()[len(before) :]
    view.close()
    assert said.partition("| ")[2].splitlines()[0] == shown


def test_an_endless_line_is_cut_on_a_terminal_but_not_in_a_file() -> None:
    view, stream = live(color_system=None)
    view.logged([line("x" * 100_000)])
    view.close()
    assert "(98000 more characters in the log)" in stream.getvalue()
    plain = io.StringIO()
    PlainView(plain).logged([line("x" * 100_000)])
    assert plain.getvalue().count("x") == 100_000


def test_why_a_job_does_not_run_yet_is_said_when_it_changes() -> None:
    def waiting(message: str, status: str = "False", reason: str = "TFJobPending") -> TFJob:
        condition = JobCondition("Running", status, reason, message)
        return msgspec.structs.replace(job(), status=TFJobStatus(conditions=(condition,)))

    stream = io.StringIO()
    view = PlainView(stream)
    for seen in (waiting("no image"), waiting("no image"), waiting("no node"), waiting("over", reason="TFJobFailed")):
        view.job_changed(seen)
    assert stream.getvalue().splitlines() == ["[digits] Pending: no image", "[digits] Pending: no node"]


def board_pod() -> Pod:
    labels = {LABEL_TENSORBOARD: "digits"}
    meta = {"name": "digits-tensorboard-1-0", "namespace": "ns", "uid": "board", "labels": labels}
    status = {"phase": "Running", "containerStatuses": [container({}, ready=True)]}
    return msgspec.convert({"metadata": meta, "status": status}, Pod)


def job_with_board(url: str, *, ready: bool = False) -> TFJob:
    meta = ObjectMeta(name="digits", namespace="ns", uid="u")
    return TFJob(metadata=meta, status=TFJobStatus(tensor_board=TensorBoardStatus(url, ready)))


def test_the_address_of_a_tensorboard_is_said_when_it_is_known_and_when_it_answers() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    url = "http://127.0.0.1:20001"
    view.job_changed(job_with_board("http://digits-tensorboard.ns.svc"))
    for ready in (False, False, True, True):
        view.job_changed(job_with_board(url, ready=ready))
    view.pod_changed(board_pod())
    view.logged([LogLine("ns", "digits-tensorboard-1-0", "tensorboard", 0, "hello")])
    assert stream.getvalue().splitlines() == [
        f"[digits] TensorBoard starts at {url}",
        f"[digits] TensorBoard is ready at {url}",
        "[tensorboard] hello",
    ]


def test_the_table_has_a_tensorboard_with_its_address_but_counts_replicas_only() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, height=40)
    view = LiveView(console)
    view.job_changed(job_with_board("http://127.0.0.1:20001"))
    view.pod_changed(pod("worker-0", phase="Pending"))
    view.pod_changed(board_pod())
    console.print(view.table())
    view.close()
    shown = " ".join(stream.getvalue().split())
    assert "tensorboard" in shown
    assert "http://127.0.0.1:20001" in shown
    assert "0/1" in shown
