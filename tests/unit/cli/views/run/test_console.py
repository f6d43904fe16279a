import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from tfoperator.api.replicas.names import ANNOTATION_STOPPED, LABEL_TENSORBOARD, replica_labels
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.parts.tensorboard import TensorBoardStatus
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.cli.views.replica_rows import ReplicaRow, replica_row
from tfoperator.cli.views.run.choice import make_view
from tfoperator.cli.views.run.folding import Folding
from tfoperator.cli.views.run.live import LiveView
from tfoperator.cli.views.run.plain import PlainView
from tfoperator.kube.views.event import Event
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.local.run.container_output import LogChunk
from tfoperator.local.run.results import RunOutcome
from tfoperator.local.runtime.measurements import ContainerName
from tfoperator.local.usage import ContainerUsage, Usage


def pod(name: str = "worker-0", *, deleted: bool = False, stopped: str = "", job: str = "digits", **status: Any) -> Pod:
    kind, index = name.split("-")
    meta: dict[str, Any] = {
        "name": f"{job}-{name}",
        "namespace": "ns",
        "uid": f"{job}-{name}",
        "labels": replica_labels(job, ReplicaType(kind.capitalize()), int(index), is_master=False),
    }
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if stopped:
        meta["annotations"] = {ANNOTATION_STOPPED: stopped}
    spec = {"restartPolicy": "Never", **({"activeDeadlineSeconds": 1} if stopped else {})}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Pod)


def container(state: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "tensorflow", "state": state, **fields}


def exited(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code}}


WAITING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2s"}}
LAST = exited(137)
DONE = container(exited(0))
PROXY = {"name": "proxy", "state": {"running": {}}, "ready": True, "restartCount": 2}


def running(state: dict[str, Any], **fields: Any) -> Pod:
    return pod(phase="Running", containerStatuses=[container(state, **fields)])


def failed(stopped: str, *containers: dict[str, Any]) -> Pod:
    return pod(phase="Failed", stopped=stopped, containerStatuses=list(containers))


@pytest.mark.parametrize(
    ("observed", "row"),
    [
        (pod(), ("Pending", False, 0)),
        (pod(phase="Running"), ("Running", False, 0)),
        (running({"running": {}}, ready=True), ("Running", True, 0)),
        (running(WAITING, restartCount=2, lastState=LAST), ("CrashLoopBackOff", False, 2, "back-off 2s")),
        (running({}, ready=True, restartCount=1, lastState=LAST), ("Running", True, 1, "last exit code 137")),
        (failed("", container(exited(3))), ("Failed", False, 0, "exit code 3")),
        (pod(phase="Running", deleted=True), ("Stopping", False, 0)),
        (pod(phase="Running", stopped="job-failed"), ("Stopping", False, 0, "job-failed")),
        (failed("job-failed", container(exited(143))), ("Stopped", False, 0, "job-failed")),
        (pod(phase="Succeeded", stopped="job-failed"), ("Succeeded", False, 0)),
        (pod(phase="Running", containerStatuses=[DONE, PROXY]), ("Succeeded", False, 0)),
        (failed("replica-ended", DONE, PROXY | {"state": LAST}), ("Succeeded", False, 0, "proxy: exit code 137")),
        (failed("replica-ended", container(LAST), PROXY), ("Failed", False, 0, "exit code 137")),
    ],
)
def test_a_pod_in_words(observed: Pod, row: tuple[Any, ...]) -> None:
    assert replica_row(observed) == ReplicaRow("worker-0", *row)


def job(*conditions: tuple[str, str], at: int = 1) -> TFJob:
    when = datetime(2026, 1, at, tzinfo=UTC)
    met = tuple(JobCondition(kind, "True", "R", text, last_transition_time=when) for kind, text in conditions)
    return TFJob(metadata=ObjectMeta(name="digits", uid="u"), status=TFJobStatus(conditions=met))


def event(message: str, *, kind: str = "Normal", about: str = "digits-worker-0", count: int = 1) -> Event:
    fields = {"type": kind, "reason": "Why", "message": message, "count": count}
    pod = {"kind": "Pod", "namespace": "ns", "name": about}
    return msgspec.convert({"metadata": {"name": "e"}, "involvedObject": pod, **fields}, Event)


def line(text: str, name: str = "worker-0", container: str = "tensorflow", **fields: Any) -> LogChunk:
    return LogChunk("ns", f"digits-{name}", container, 0, f"logs/{name}/0.log", (text,), **fields)


def bar(text: str) -> LogChunk:
    return LogChunk("ns", "digits-worker-0", "tensorflow", 0, "logs/worker-0/0.log", (), bar=text)


def plain(*pods: Pod, verbose: bool = False) -> tuple[PlainView, io.StringIO]:
    """A view for pipes that knows these pods."""
    stream = io.StringIO()
    view = PlainView(stream, verbose=verbose)
    for changed in pods:
        view.pod_changed(changed)
    return view, stream


def test_plain_lines_say_who_and_what() -> None:
    view, stream = plain(pod(), verbose=True)
    view.job_changed(job(("Created", "made")))
    view.logged([line("step 1"), line("[red]not markup[/red]"), line("hm", container="sidecar")])
    view.event(event("trouble", kind="Warning", count=3))
    view.event(event("fine", about="digits-unknown"))
    view.stopping(RunOutcome.INTERRUPTED)
    assert stream.getvalue().splitlines() == [
        "[digits] Created: made",
        "[worker-0] step 1",
        "[worker-0] [red]not markup[/red]",
        "[worker-0/sidecar] hm",
        "[worker-0] warning: Why: trouble (x3)",
        "[digits-unknown] event: Why: fine",
        "[tfoperator] stopping the job gracefully; press Ctrl-C again to stop it at once",
    ]


def test_a_condition_is_shown_once_until_it_is_true_again_and_why_a_job_does_not_run_yet_when_it_changes() -> None:
    view, stream = plain(verbose=True)
    view.job_changed(job(("Created", "made")))
    view.job_changed(job(("Created", "made"), ("Running", "runs")))
    view.event(event("runs"))
    view.job_changed(job(("Created", "made"), ("Running", "runs")))
    assert stream.getvalue().count("\n") == 2
    view.job_changed(job(("Running", "runs"), at=2))
    assert stream.getvalue().splitlines()[2:] == ["[digits] Running: runs"]
    view, stream = plain()
    for reason, text in (
        *(("TFJobPending", f"no {what}") for what in ("image", "image", "node")),
        ("TFJobFailed", "over"),
    ):
        condition = JobCondition("Running", "False", reason, text)
        view.job_changed(replace(job(), status=TFJobStatus(conditions=(condition,))))
    assert stream.getvalue().splitlines() == ["[digits] Pending: no image", "[digits] Pending: no node"]


def test_a_start_as_it_should_be_is_one_line_and_each_restart_another() -> None:
    before, after = pod(phase="Running"), running({"running": {}}, ready=True, restartCount=1, lastState=LAST)
    view, stream = plain(before, before, after, after)
    view.job_changed(job(("Created", "made"), ("Ready", "all"), ("Running", "runs")))
    view.event(replace(event("Created pod: digits-worker-0"), reason="SuccessfulCreatePod"))
    # The line of the replica shows it already.
    view.event(replace(event("worker-0 is restarted in place", kind="Warning"), reason="RestartedInPlace"))
    assert stream.getvalue() == "[worker-0] exited with 137, started again (1)\n[digits] Running: runs\n"


NOISE = "I0000 00:00:{pid}.895422    {pid} cpu_feature_guard.cc:227] This TensorFlow binary is optimized"


@pytest.mark.parametrize("verbose", [False, True])
def test_lines_of_tensorflow_that_replicas_print_alike_are_shown_once(verbose: bool) -> None:
    view, stream = plain(*(pod(f"worker-{index}") for index in range(3)), verbose=verbose)
    for index in range(2):
        view.logged([line(NOISE.format(pid=100 + index), f"worker-{index}"), line("I trained", f"worker-{index}")])
    if verbose:
        assert stream.getvalue().count("cpu_feature_guard") == 2
        return
    assert stream.getvalue().splitlines() == ["[worker-0] I trained", "[worker-1] I trained"]
    view.stopping(RunOutcome.FAILED)
    assert stream.getvalue().splitlines()[2:] == [f"[2 replicas] {NOISE.format(pid=100)}"]


def test_what_waits_is_shown_in_time_and_bounded() -> None:
    folding = Folding()
    assert folding.holds("worker-0", NOISE.format(pid=1), 10.0)
    assert not folding.holds("worker-0", NOISE.format(pid=2), 10.1), "it says so again"
    assert not folding.holds("worker-1", "W0000 but not like this", 10.2)
    assert folding.due(11.9) == []
    assert folding.due(12.0) == [("worker-0", NOISE.format(pid=1))]
    assert sum(folding.holds("worker-0", f"{NOISE.format(pid=1)} {'x' * number}", 20.0) for number in range(500)) == 200


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I0000 00:00:1.0 7 coordination_service.cc:505] Example stragglers:", "/job:worker/replica:0/task:1"),
        (
            "W0000 00:00:1.0 7 local_rendezvous.cc:412] Rendezvous is aborting with status: UNAVAILABLE: Failed to",
            "Additional GRPC error information from remote target /job:worker/replica:0/task:0",
        ),
    ],
)
def test_a_message_of_several_lines_stays_together(first: str, second: str) -> None:
    view, stream = plain(pod())
    view.logged([line(first), line(second)])
    assert stream.getvalue().splitlines() == [f"[worker-0] {first}", f"[worker-0] {second}"]


def test_output_of_several_jobs_names_the_job_and_waits_for_the_pods_name_if_it_comes_before_its_pod() -> None:
    view, stream = plain()
    view.logged([line("early"), line("of no pod that was seen", "ps-9")])
    assert stream.getvalue() == ""
    view.job_changed(job())
    view.pod_changed(pod())
    view.logged([line("later")])
    view.stopping(RunOutcome.SUCCEEDED)
    expected = ["[worker-0] early", "[worker-0] later", "[digits-ps-9] of no pod that was seen"]
    assert stream.getvalue().splitlines() == expected
    view, stream = plain()
    view.job_changed(job(("Created", "made")))
    view.job_changed(replace(job(), metadata=ObjectMeta(name="other", uid="o")))
    view.pod_changed(pod())
    view.logged([line("x")])
    assert stream.getvalue().splitlines()[-1] == "[digits/worker-0] x"


def live(*pods: Pod, width: int = 120, height: int = 24, **options: Any) -> tuple[LiveView, io.StringIO]:
    """A view on a terminal that knows these pods."""
    stream = io.StringIO()
    view = LiveView(Console(file=stream, force_terminal=True, width=width, height=height, **options))
    for changed in pods:
        view.pod_changed(changed)
    return view, stream


def drawn(*pods: Pod, used: Usage | None = None, **options: Any) -> str:
    """Return the drawing of these pods, and of their usage."""
    view, stream = live(*pods, **options)
    if used:
        view.used(used)
    view._drawn = 0.0
    view.tick()
    view.close()
    return stream.getvalue()


def test_the_table_shows_every_replica_and_what_is_wrong_with_it_and_leaves_room_for_the_echo_of_ctrl_c() -> None:
    bad = pod("worker-1", phase="Running", containerStatuses=[container(WAITING, restartCount=2)])
    text = drawn(running({"running": {}}, ready=True), bad, width=80)
    assert all(word in text for word in ("worker-0", "CrashLoopBackOff", "1/2"))
    waiting = container({"waiting": {"reason": "ImagePullBackOff", "message": "no such image " * 9}})
    text = drawn(pod(phase="Pending", containerStatuses=[waiting]), width=40)
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", row) for row in re.split("[\r\n]+", text)]
    assert max(len(row) for row in lines) == 38


def test_the_table_shows_what_replicas_use_once_it_is_known_and_a_large_job_does_not_fill_the_screen() -> None:
    pods = [pod(name, phase="Running") for name in ("worker-0", "worker-1")]
    nothing = Usage(datetime(2026, 1, 1, tzinfo=UTC), 2.0, 1.0, 1 << 30, ())
    usage = ContainerUsage(ContainerName("ns", "digits-worker-0", "c"), "digits-worker-0", 0.5, 100 << 20)
    assert "MEMORY" not in drawn(*pods, used=nothing)
    text = drawn(*pods, used=replace(nothing, containers=(usage,)))
    assert all(word in text for word in ("CPU", "MEMORY", "0.50", "100Mi"))
    assert "GPU" not in text
    text = drawn(*(pod(f"worker-{index}", phase="Running") for index in range(50)), height=20)
    assert "+43 more" in text
    assert "43 Running" in text


def shown(printed: str, **options: Any) -> str:
    """Return the output to the terminal after a container has printed a line."""
    view, stream = live(pod(), width=80, **options)
    before = stream.getvalue()
    view.logged([line(printed)])
    text = stream.getvalue()[len(before) :]
    view.close()
    return text


def test_container_output_keeps_its_colours_but_is_no_markup_and_no_color_is_honoured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = shown("\x1b[31mred\x1b[0m [bold]plain[/bold]", color_system="truecolor")
    assert all(text in output for text in ("\x1b[31mred", "\x1b[36m", "[bold]plain[/bold]"))
    monkeypatch.setenv("NO_COLOR", "1")
    output = shown("text", color_system="truecolor")
    assert ("\x1b[36m" in output, "text" in output) == (False, True)


@pytest.mark.parametrize(
    ("printed", "text"),
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
def test_container_output_can_not_garble_the_terminal(printed: str, text: str) -> None:
    assert shown(printed, color_system=None).partition("| ")[2].splitlines()[0] == text


def test_an_endless_line_is_cut_on_a_terminal_but_not_in_a_file() -> None:
    on_terminal, terminal = live(pod(), color_system=None)
    in_file, file = plain(pod())
    for view in (on_terminal, in_file):
        view.logged([line("x" * 100_000)])
        view.close()
    assert "(98000 more characters in the log)" in terminal.getvalue()
    assert file.getvalue().count("x") == 100_000


def board_pod() -> Pod:
    labels = {LABEL_TENSORBOARD: "digits"}
    meta = {"name": "digits-tensorboard-1-0", "namespace": "ns", "uid": "board", "labels": labels}
    status = {"phase": "Running", "containerStatuses": [container({}, ready=True)]}
    return msgspec.convert({"metadata": meta, "status": status}, Pod)


def job_with_board(url: str, *, ready: bool = False) -> TFJob:
    return replace(job(), status=TFJobStatus(tensor_board=TensorBoardStatus(url, ready)))


def test_the_address_of_a_tensorboard_is_said_when_it_is_known_and_when_it_answers() -> None:
    view, stream = plain(board_pod())
    url = "http://127.0.0.1:20001"
    view.job_changed(job_with_board("http://digits-tensorboard.ns.svc"))
    for ready in (False, False, True, True):
        view.job_changed(job_with_board(url, ready=ready))
    view.logged([LogChunk("ns", "digits-tensorboard-1-0", "tensorboard", 0, "0.log", ("hello",))])
    assert stream.getvalue().splitlines() == [
        f"[digits] TensorBoard starts at {url}",
        f"[digits] TensorBoard is ready at {url}",
        "[tensorboard] hello",
    ]


def test_the_table_has_a_tensorboard_with_its_address_but_counts_replicas_only() -> None:
    view, _ = live(pod(phase="Pending"), board_pod(), height=40)
    view.job_changed(job_with_board("http://127.0.0.1:20001"))
    table = table_text(view)
    view.close()
    assert all(word in table for word in ("tensorboard", "http://127.0.0.1:20001", "0/1"))


def test_lines_that_are_not_shown_are_counted_with_their_file_and_none_controls_a_terminal_behind_a_pipe() -> None:
    view, stream = plain(pod())
    view.logged([line("step 12001", skipped=12_000), line("step 12003", skipped=1)])
    assert stream.getvalue().splitlines() == [
        "[worker-0] ... 12,000 more lines in logs/worker-0/0.log",
        "[worker-0] step 12001",
        "[worker-0] ... 1 more line in logs/worker-0/0.log",
        "[worker-0] step 12003",
    ]
    view, stream = plain(pod())
    assert isinstance(make_view(stream), PlainView)
    view.logged([line("\x1b[31mred\x1b[0m\x1b[2J\x9b2J\r[other-0] spoof")])
    assert stream.getvalue().partition("] ")[2] == "\x1b[31mred\x1b[0m\ufffd2J\ufffd[other-0] spoof\n"


KERAS = "\x1b[1m 12/100\x1b[0m \x1b[32m━━\x1b[0m\x1b[37m━━━━━━━━\x1b[0m \x1b[1m3s\x1b[0m 40ms/step - loss: 0.5"


HOSTILE = "\x1b]0;title\x07\x1b[2J\x1b[31mstep 1\x9b2J"


def test_a_progress_bar_lives_in_the_table_until_its_line_has_ended_and_controls_nothing() -> None:
    view, stream = live(pod(phase="Running"))
    before = len(stream.getvalue())
    for printed, text in ((HOSTILE, "step 1\ufffd2J"), (KERAS, "12/100 3s 40ms/step - loss: 0.5")):
        view.logged([bar(printed)])
        assert stream.getvalue()[before:] == ""
        assert text in table_text(view)
    view.logged([line("100/100 done")])
    assert "12/100" not in table_text(view)
    view.close()


def table_text(view: LiveView) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(view.table())
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_in_a_pipe_a_progress_bar_is_a_line_now_and_then() -> None:
    view, stream = plain(pod())
    for second in range(100):
        view.logged([bar(f"{HOSTILE} {second}% done")])
        view.show_bars(float(second))
    view.logged([line("100% done")])
    view.show_bars(200.0)
    bars = [f"\x1b[31mstep 1\ufffd2J {percentage}% done" for percentage in (30, 60, 90)]
    assert stream.getvalue().splitlines() == [f"[worker-0] {shown}" for shown in (*bars, "100% done")]


def test_who_does_not_end_is_shown_with_the_time_until_it_is_killed() -> None:
    end = datetime.now(UTC) + timedelta(seconds=30.5)
    stopping = pod(phase="Running", deleted=True)
    view, stream = plain(replace(stopping, metadata=replace(stopping.metadata, deletion_timestamp=end)))
    for now in (100.0, 102.9):
        view.show_countdown(now)
    assert stream.getvalue() == ""
    view.show_countdown(103.0)
    assert re.fullmatch(r"\[tfoperator\] worker-0 still running, will be killed in (30|31) s\n", stream.getvalue())
    view.pod_gone(stopping)
    view.show_countdown(200.0)
    assert stream.getvalue().count("\n") == 1
