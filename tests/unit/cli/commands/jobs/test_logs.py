import json
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tests.support.cli import Cli
from tests.support.jobs import soon
from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Tell
from tests.unit.logs.archive.samples import record
from tfoperator.cli.terminal import output, progress
from tfoperator.logs.archive.layout import RECORD, encode_record, job_folder


def two_workers(world: ServedWorld, job: str) -> None:
    """Logs are known by pod name, so each test's job has a name of its own."""
    world.submit(job)
    for replica in ("worker-0", "worker-1"):
        world.logs.begin(world.pod(replica, job), f"{replica} 1\n{replica} 2\n")


def ends(world: ServedWorld, job: str) -> None:
    """The first worker and its job."""
    pod = f"{job}-worker-0"
    world.logs.end(pod)
    world.pod_status(pod, "Succeeded")
    world.becomes("Succeeded", job)


def test_one_replica_is_shown_as_it_is_several_with_a_prefix_and_every_line_as_an_object_for_programs(
    tell: Tell, world: ServedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_workers(world, "plain")
    assert tell("logs", "plain").out == "worker-0 1\nworker-0 2\n"
    assert tell("logs", "plain", "--replica", "worker-1", "--tail", "1").out == "worker-1 2\n"
    every = "[worker-0] worker-0 1\n[worker-0] worker-0 2\n[worker-1] worker-1 1\n[worker-1] worker-1 2\n"
    assert tell("logs", "plain", "--all-replicas").out == every
    assert tell("logs", "plain", "--replica", "Worker").out == every
    first, _ = tell("logs", "plain", "-o", "json").out.splitlines()
    assert json.loads(first) == {"pod": "plain-worker-0", "replica": "worker-0", "text": "worker-0 1"}
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = tell("logs", "plain", "--all-replicas").out
    assert "\x1b[36m[worker-0]\x1b[0m worker-0 1" in coloured
    assert "\x1b[32m[worker-1]\x1b[0m worker-1 1" in coloured


@pytest.mark.parametrize("follow", [False, True])
def test_lines_of_the_last_minutes_are_asked_for_and_their_times(
    tell: Tell, world: ServedWorld, *, follow: bool
) -> None:
    job = f"since-{follow}".lower()
    world.submit(job)
    world.logs.begin(world.pod("worker-0", job), "said\n")
    ends(world, job)
    assert tell("logs", job, "--since", "5m", "--timestamps", *(["-f"] if follow else [])).out == "said\n"
    since, timestamps = world.logs.asked[f"{job}-worker-0"]
    assert timestamps
    assert timedelta(minutes=4) < datetime.now(UTC) - since < timedelta(hours=1)


HOSTILE = "\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J\x9b2J\x07!"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("arguments", [(), ("-a",), ("-f",), ("-a", "-f")])
def test_a_container_controls_nothing_but_its_colours(
    tell: Tell, world: ServedWorld, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], terminal: bool
) -> None:
    job = f"hostile-{terminal}{''.join(arguments)}".lower()
    world.submit(job)
    world.logs.begin(world.pod("worker-0", job), f"{HOSTILE}\nnext\n")
    ends(world, job)
    if terminal:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    first, second = tell("logs", job, *arguments).out.splitlines()
    assert first.endswith("\x1b[31mred\x1b[0m\ufffd2J\ufffd!")
    assert second.endswith("next")
    assert "title" not in first


def test_as_json_a_log_is_whole_and_controls_nothing(tell: Tell, world: ServedWorld) -> None:
    world.submit("hostile-json")
    world.logs.begin(world.pod("worker-0", "hostile-json"), f"{HOSTILE}\n")
    text = tell("logs", "hostile-json", "-o", "json").out
    assert json.loads(text)["text"] == HOSTILE
    assert text.removesuffix("\n").isprintable()


def test_the_run_before_a_restart_and_what_can_not_be(tell: Tell, world: ServedWorld) -> None:
    world.submit("again")
    name = world.pod("worker-0", "again", restarts=1)
    world.logs.begin(name, "crash\n")
    world.logs.begin(name, "better\n")
    assert tell("logs", "again", "--previous").out == "crash\n"
    assert tell("logs", "again", "-f", "-p").code == 2
    assert "--since" in tell("logs", "again", "--since", "yesterday", code=2).err
    for replica in ("boss-0", "worker-", "worker-x", "worker--1"):
        result = tell("logs", "any", "--replica", replica, code=2)
        assert "must have the form worker-1 or worker" in result.err


def test_what_has_no_log_says_why(tell: Tell, world: ServedWorld) -> None:
    world.submit("silent")
    result = tell("logs", "silent", code=1)
    assert "TFJob silent has no such pods now\n" in result.err
    world.pod("worker-0", "silent", phase="Pending", waiting="ImagePullBackOff")
    result = tell("logs", "silent")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("worker-0 has not started yet (ImagePullBackOff: its image can't be pulled ")
    assert '("for a reason"). Next: ' in result.err


def test_of_a_deleted_job_without_the_log_that_is_wanted_it_says_whose_there_are(
    tell: Tell, world: ServedWorld, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    for index in (2, 1):
        kept = msgspec.structs.replace(record(index, uid=f"uid-{index}"), namespace=world.namespace)
        folder = archive / job_folder(kept.namespace, kept.job, kept.job_uid) / kept.pod
        folder.mkdir(parents=True)
        (folder / "tensorflow.log").write_text(f"of worker {index}\n")
        (folder / RECORD).write_bytes(encode_record(kept))
    result = tell("logs", "mnist", "--archive-dir", str(archive))
    command = f"tfoperator logs mnist -n {world.namespace}"
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        f"tfoperator: TFJob mnist in namespace {world.namespace} is gone; the log archive has no logs of "
        "the selected replicas, but has logs of worker-1, worker-2",
        f"To read the logs: {command} --replica worker-1, or {command} --all-replicas",
    ]
    assert tell("logs", "mnist", "--archive-dir", str(archive), "--replica", "worker-1").out == "of worker 1\n"
    assert "there is no TFJob never" in tell("logs", "never", "--archive-dir", str(archive)).err


def test_following_shows_lines_as_they_come_and_ends_with_the_job(world: ServedWorld, tmp_path: Path) -> None:
    two_workers(world, "follow")
    cli = Cli(tmp_path, KUBECONFIG=str(world.kubeconfig))
    with cli.start("logs", "follow", "-f", "--all-replicas") as command:
        command.until("[worker-1] worker-1 2")
        world.logs.write("follow-worker-0", "10%\r100%\n")
        command.until("[worker-0] 100%")
        for replica in ("worker-0", "worker-1"):
            world.logs.end(f"follow-{replica}")
            world.pod_status(f"follow-{replica}", "Succeeded")
        world.becomes("Succeeded", "follow")
        assert command.wait() == 0
    lines = [f"[{replica}] {replica} {number}" for replica in ("worker-0", "worker-1") for number in (1, 2)]
    assert sorted(command.output.splitlines()) == ["[worker-0] 100%", *lines]


def test_waiting_for_a_replica_to_start_is_told_after_a_while(
    tell: Tell, world: ServedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit("late")
    world.pod("worker-0", "late", phase="Pending", waiting="ImagePullBackOff")
    reported = threading.Event()

    def note(text: str) -> None:
        output.note(text)
        if "worker-0" in text:
            reported.set()

    def run() -> None:
        assert reported.wait(60)
        world.logs.begin("late-worker-0", "at last\n")
        world.logs.end("late-worker-0")
        world.pod_status("late-worker-0", "Succeeded")

    monkeypatch.setattr(progress, "note", note)
    began = time.monotonic()
    with soon(run, after=0.1):
        result = tell("logs", "late", "-f")
    assert result.out == "at last\n"
    assert "waiting for worker-0 to start (ImagePullBackOff: its image can't be pulled (" in result.err
    assert time.monotonic() - began > 2
