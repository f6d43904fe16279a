import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.cli import replica, tfjob
from tests.support.eventually import eventually
from tfoperator.api.v1.parts.tensorboard import TensorBoard
from tfoperator.api.v1.types import TFJOBS, TFJob, TFJobSpec
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.views.event import Event
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.local.run.container_output import LogChunk, RunListener
from tfoperator.local.run.job_run import JobRun, tensorboard_log_dir
from tfoperator.local.run.lifecycle import ControlPlaneFailed, JobLifecycle
from tfoperator.local.run.results import RunOutcome
from tfoperator.local.runtime.protocol import Mount, real_path
from tfoperator.local.usage import Usage
from tfoperator.report.facts import FinalState


class Recorder(RunListener):
    """A listener that writes down its calls, and the calling threads."""

    shows_every_line = True

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.threads: set[str] = set()
        self.react: Any = lambda what: None

    def _note(self, what: str) -> None:
        self.threads.add(threading.current_thread().name)
        self.calls.append(what)
        self.react(what)

    def job_changed(self, job: TFJob) -> None:
        self._note(f"job {job.status.phase}")

    def pod_changed(self, pod: Pod) -> None:
        self._note(f"pod {pod.status.phase}")

    def pod_gone(self, pod: Pod) -> None:
        self._note("pod gone")

    def event(self, event: Event) -> None:
        self._note(f"event {event.reason}")

    def logged(self, chunks: Sequence[LogChunk]) -> None:
        for line in (line for chunk in chunks for line in chunk.lines):
            self._note(f"log {line}")

    def stopping(self, outcome: RunOutcome) -> None:
        self._note(f"stopping {outcome}")

    def used(self, usage: Usage) -> None:
        if usage.containers:
            self._note("used")


def job(*command: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(tfjob("quick", Worker=replica(*command)))
    return loaded


def test_events_that_come_later_than_the_end_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = JobLifecycle._later

    def without_late(self: JobLifecycle, handle: Callable[[Any], object]) -> Callable[[Any], None]:
        send = later(self, handle)
        return lambda news: None if getattr(news, "reason", "") == "SuccessfulCreatePod" else send(news)

    monkeypatch.setattr(JobLifecycle, "_later", without_late)
    listener = Recorder()
    run = JobRun([job("true")], listener, run_dir=tmp_path)
    run.execute()
    reasons = [event.reason for event in run.events]
    assert reasons.count("SuccessfulCreatePod") == listener.calls.count("event SuccessfulCreatePod") == 1
    assert [line for line in listener.calls if line.startswith("event ")] == [f"event {reason}" for reason in reasons]
    assert len({(event.metadata.uid, event.metadata.resource_version) for event in run.events}) == len(reasons)


def test_a_run_tells_its_listener_everything_in_one_thread_and_in_order(tmp_path: Path) -> None:
    listener = Recorder()
    run = JobRun([job("echo", "hello")], listener, run_dir=tmp_path)
    result = run.execute()
    assert result.outcome is RunOutcome.SUCCEEDED
    assert listener.threads == {threading.current_thread().name}
    calls = listener.calls
    order = ["pod Running", "pod Succeeded", "stopping Succeeded", "pod gone"]
    assert [calls.index(what) for what in order] == sorted(calls.index(what) for what in order)
    assert calls.index("job Succeeded") < calls.index("stopping Succeeded")
    assert calls.index("log hello") < calls.index("pod Succeeded"), "words before the news of the end of who said them"
    assert "event SuccessfulCreatePod" in calls
    (final,) = [obj for obj in run.ended_records(result).objects if obj["kind"] == "TFJob"]
    assert final["status"]["phase"] == "Succeeded"
    assert "deletionTimestamp" not in final["metadata"]


def test_a_listener_that_shows_it_is_told_what_containers_use(tmp_path: Path) -> None:
    listener = Recorder()
    listener.shows_usage = True
    run = JobRun([job("sleep", "60")], listener, run_dir=tmp_path)
    listener.react = lambda what: run.interrupt() if what == "used" else None
    result = run.execute()
    assert listener.threads == {threading.current_thread().name}
    [replica_result] = result.jobs[0].replicas
    assert (replica_result.peak_memory or 0) > 0


def test_a_job_that_is_deleted_ends_the_run(tmp_path: Path) -> None:
    listener = Recorder()
    run = JobRun([job("sleep", "600")], listener, run_dir=tmp_path)

    def react(what: str) -> None:
        if what == "pod Running":
            listener.react = lambda _: None
            with Client(load_config(str(tmp_path / "kubeconfig"))) as client:
                client.delete(TFJOBS, "default", "quick")

    listener.react = react
    result = run.execute()
    message = "TFJob default/quick was deleted before it had ended."
    assert (result.outcome, result.exit_code, result.message) == (RunOutcome.FAILED, 1, message)
    [job_result] = result.jobs
    assert (job_result.condition, job_result.message) == ("Failed", message)
    assert [replica.state for replica in job_result.replicas] == [FinalState.STOPPED]
    (final,) = [obj for obj in run.ended_records(result).objects if obj["kind"] == "TFJob"]
    assert final["status"]["conditions"][-1]["message"].endswith(f"its run failed: {message}")


def test_a_job_whose_owner_does_not_exist_is_collected_and_ends_the_run(tmp_path: Path) -> None:
    orphan = job("sleep", "600")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "of-another-cluster"}
    orphan["metadata"]["ownerReferences"] = [owner]
    result = JobRun([orphan], Recorder(), run_dir=tmp_path).execute()
    assert result.outcome is RunOutcome.FAILED
    assert [ended.message for ended in result.jobs] == [result.message]


def test_a_finalizer_of_another_program_does_not_delay_the_end(tmp_path: Path) -> None:
    held = job("true")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    listener = Recorder()
    result = JobRun([held], listener, run_dir=tmp_path).execute()
    assert result.outcome is RunOutcome.SUCCEEDED
    assert "pod gone" in listener.calls, "the pod does not stay until the run gives up"


def test_an_operator_that_breaks_down_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr("tfoperator.operator.operator.Operator._live", broken)
    with pytest.raises(ControlPlaneFailed, match="out of order"):
        JobRun([job("true")], Recorder(), run_dir=tmp_path).execute()


def test_an_interrupt_is_answered_while_the_listener_does_not_return(tmp_path: Path) -> None:
    """A terminal that was stopped by Ctrl-S, or whose other end is slow: the pods end all the same."""
    listener = Recorder()
    run = JobRun([job("sh", "-c", "echo up; exec sleep 600")], listener, run_dir=tmp_path)

    def react(what: str) -> None:
        if what == "log up":
            run.interrupt()
            eventually(lambda: run._lifecycle.ended, what="everything is stopped behind the listener's back")

    listener.react = react
    assert run.execute().outcome is RunOutcome.INTERRUPTED


MOUNT = {"name": "logs", "mountPath": "/logs"}


def board_job(board: dict[str, Any] | None) -> TFJob:
    spec = TFJobSpec(tensor_board=None if board is None else msgspec.convert(board, TensorBoard))
    return TFJob(metadata=ObjectMeta(name="mnist", namespace="ns"), spec=spec)


def test_a_claim_is_a_folder_of_the_run_directory(tmp_path: Path) -> None:
    claim = {"name": "logs", "persistentVolumeClaim": {"claimName": "boards"}}
    board = {"logDir": "/logs/a", "volumes": [claim], "volumeMounts": [MOUNT | {"subPath": "x"}]}
    assert tensorboard_log_dir(board_job(board), tmp_path) == ""
    folder = tmp_path / "volumes/claims/ns/boards/x/a"
    folder.mkdir(parents=True)
    assert tensorboard_log_dir(board_job(board), tmp_path) == str(folder)


def test_a_host_path_is_where_it_says_and_only_what_is_mounted_outlives_a_container(tmp_path: Path) -> None:
    volume = {"name": "logs", "hostPath": {"path": str(tmp_path)}}
    board = {"volumes": [volume], "volumeMounts": [MOUNT]}
    assert tensorboard_log_dir(board_job({"logDir": "/logs", **board}), tmp_path / "run") == str(tmp_path)
    lost = {"logDir": "/logs", "volumes": [{"name": "logs", "emptyDir": {}}], "volumeMounts": [MOUNT]}
    for tensorboard, expected in ((None, ""), ({"logDir": "gs://bucket/logs"}, "gs://bucket/logs"), (lost, "")):
        assert tensorboard_log_dir(board_job(tensorboard), tmp_path) == expected
    directories = [
        tensorboard_log_dir(board_job({"logDir": path, **board}), tmp_path / "run", in_container=True)
        for path in ("/logs", "/tmp", "gs://bucket/x")
    ]
    assert directories == [str(tmp_path), "", "gs://bucket/x"]


def test_a_path_lies_in_the_innermost_mount_above_it() -> None:
    mounts = [Mount("a", Path("/1"), "/logs"), Mount("b", Path("/2"), "/logs/deep/"), Mount("c", Path("/3"), "/lo")]
    for path, real in (("/logs", "/1"), ("/logs/x/y", "/1/x/y"), ("/logs/deep/x", "/2/x")):
        assert real_path(path, mounts) == real
    for elsewhere in ("/logs2", "relative", "gs://logs"):
        assert real_path(elsewhere, mounts) == elsewhere
