"""Each way in which a run ends, in each view: all of them agree about state, end and cause.

The runs are made once and beside each other, most of their time is waiting, and one browser looks at them all.
"""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from hack.chromium import running_chromium
from tests.support.browsing import person
from tests.support.cli import Cli, CliProcess
from tests.support.eventually import eventually
from tfoperator.local.run.kept import read_run
from tfoperator.local.run.recorded_run import RecordedRun
from tfoperator.local.run.records import read_records
from tfoperator.sdk import TFJobClient
from tfoperator.ui import PageContent, UiServer

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

PROGRAM = """
import json, os, pathlib, signal, sys, time

how, index = sys.argv[1], json.loads(os.environ["TF_CONFIG"])["task"]["index"]
began = pathlib.Path(f"began-{index}")
print("first line" if not began.exists() else "second attempt", flush=True)
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if how == "restart" and index == 1 and not began.exists():
    began.touch()
    os._exit(1)
began.touch()
if how == "restart" and index == 0:
    while not pathlib.Path("again-1").exists():
        time.sleep(0.02)
    sys.exit(0)
if how == "fail" and index == 0:
    sys.exit(3)
pathlib.Path(f"again-{index}").touch()
while True:
    time.sleep(0.05)
"""


def at_work(process: CliProcess) -> None:
    """Wait until both workers are at work, and the run's records have that."""
    for index in (0, 1):
        process.until(f"[worker-{index}] first line")
    directory = Path(os.readlink(f"/proc/{process.process.pid}/cwd"), ".tfoperator", "runs", "latest")

    def recorded() -> bool:
        objects = read_records(directory).objects
        phases = [obj["status"]["phase"] for obj in objects if obj["kind"] == "Pod"]
        reasons = [obj["reason"] for obj in objects if obj["kind"] == "Event"]
        return phases == ["Running", "Running"] and "SuccessfulCreatePod" in reasons

    eventually(recorded, what="the records have two pods that run, and an event of their creation")


def guardian(process: CliProcess) -> int:
    """The process that ends what the run has started when the run is killed."""
    children = psutil.Process(process.process.pid).children()
    (pid,) = [child.pid for child in children if any("guardian_main" in word for word in child.cmdline())]
    return pid


def by_itself(process: CliProcess) -> None:
    del process


def interrupted(process: CliProcess) -> None:
    at_work(process)
    process.signal(signal.SIGINT)


def interrupted_twice(process: CliProcess) -> None:
    interrupted(process)
    process.until("stopping")
    process.signal(signal.SIGINT)


def killed(process: CliProcess) -> None:
    at_work(process)
    process.signal(signal.SIGKILL)


def guardian_killed(process: CliProcess) -> None:
    at_work(process)
    os.kill(guardian(process), signal.SIGKILL)
    process.signal(signal.SIGINT)


def both_killed(process: CliProcess) -> None:
    at_work(process)
    os.kill(guardian(process), signal.SIGKILL)
    process.signal(signal.SIGKILL)


class End(NamedTuple):
    """A way to end: what the program does, options, what is done to the run, and what each view has to show."""

    program: str
    options: tuple[str, ...]
    act: Callable[[CliProcess], None]
    code: int
    state: str
    reason: str
    cause: str


SUCCESS = "successfully completed"
RESTARTED = "worker-1 is restarted in place: restart 1 in pod ends-worker-1, last exit code 1."
ENDS = {
    "success": End("restart", ("--max-restarts", "1"), by_itself, 0, "Succeeded", "TFJobSucceeded", SUCCESS),
    "failure": End("fail", (), by_itself, 1, "Failed", "TFJobFailed", "has failed"),
    "timeout": End("last", ("--timeout", "8s"), by_itself, 124, "TimedOut", "RunTimedOut", "the time limit of its run"),
    "ctrl-c": End("last", (), interrupted, 130, "Interrupted", "RunInterrupted", "its run was interrupted"),
    "ctrl-c-twice": End(
        "stubborn", (), interrupted_twice, 130, "Interrupted", "RunInterrupted", "its run was interrupted"
    ),
    "run-killed": End("last", (), killed, -9, "Died", "RunDied", "its run was killed"),
    "guardian-killed": End(
        "last", (), guardian_killed, 130, "Interrupted", "RunInterrupted", "its run was interrupted"
    ),
    "both-killed": End("last", (), both_killed, -9, "Died", "RunDied", "its run was killed"),
}
AT_ONCE = 4
"""Runs beside each other. A run computes for some two seconds, mostly at its start."""


class Ended(NamedTuple):
    """A run that has ended, in a folder of its own."""

    cli: Cli
    end: End
    directory: Path


def end_what_is_left(folder: Path) -> None:
    """End the programs of runs in this folder that no run ends any more."""
    for record in folder.glob(".tfoperator/runs/*/processes/*.json"):
        with suppress(psutil.Error):  # it may have ended meanwhile
            left = psutil.Process(json.loads(record.read_text())["pid"])
            if left.cwd() == str(folder):
                left.kill()


def brought_to_its_end(end: End, folder: Path) -> Ended:
    """Run a job in this folder, and end it so."""
    cli = Cli(folder, KUBECONFIG="/nowhere")
    (folder / "train.py").write_text(PROGRAM)
    command = ("run", "train.py", "--name", "ends", "--workers", "2", *end.options, "--", end.program)
    with cli.start(*command) as process:
        end.act(process)
        assert process.wait() == end.code, process.output
    return Ended(cli, end, folder / ".tfoperator" / "runs" / "latest")


@pytest.fixture(scope="module")
def all_ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Ended]]:
    folders = {name: tmp_path_factory.mktemp(name) for name in ENDS}
    try:
        with ThreadPoolExecutor(AT_ONCE) as beside_each_other:
            results = beside_each_other.map(brought_to_its_end, ENDS.values(), folders.values())
            yield dict(zip(ENDS, results, strict=True))
    finally:
        for folder in folders.values():
            end_what_is_left(folder)


@pytest.fixture(params=ENDS)
def ended(request: pytest.FixtureRequest, all_ended: Mapping[str, Ended]) -> Ended:
    return all_ended[request.param]


@pytest.fixture
def command(ended: Ended, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command in the run's folder, in this process; returns what it has shown."""
    from tfoperator.cli.__main__ import main

    monkeypatch.chdir(ended.cli.folder)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")

    def run(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        exit_code = main(list(arguments))
        captured = capsys.readouterr()
        assert exit_code == code, captured.err
        assert "Traceback" not in captured.err
        return captured.out + captured.err

    return run


def final(job: dict[str, Any]) -> dict[str, Any]:
    (outcome,) = [
        condition for condition in job["status"]["conditions"] if condition["type"] in ("Failed", "Succeeded")
    ]
    assert outcome["status"] == "True"
    assert all(
        condition["status"] == "False" for condition in job["status"]["conditions"] if condition["type"] == "Running"
    )
    return dict(outcome)


def test_commands_and_the_client_agree_about_its_end(ended: Ended, command: Callable[..., str]) -> None:
    end = ended.end
    (row,) = json.loads(command("runs", "-o", "json"))
    assert row["state"] == end.state
    at, now = datetime.fromisoformat(row["ended"]), datetime.now().astimezone()
    assert timedelta() < at - datetime.fromisoformat(row["began"]) < timedelta(minutes=2)
    assert at < now
    assert row["name"] in command("runs")

    assert command("get", "latest").splitlines()[1].split()[:3] == ["ends", end.state, "0/2"]
    described = command("describe", "latest")
    assert re.search(rf"^State: +{end.state} - .*{end.cause}", described, re.MULTILINE), described
    assert "Ended:" in described
    assert "Running  " not in described.split("Conditions:")[0].split("Replicas:")[1]

    job = json.loads(command("get", "latest", "-o", "json"))
    condition = final(job)
    assert (condition["reason"], end.cause in condition["message"]) == (end.reason, True)
    completed = datetime.fromisoformat(job["status"]["completionTime"])
    assert abs(completed - at) < timedelta(seconds=30 if end.program == "stubborn" else 15)
    assert "phase" not in job["status"].get("usage", {})
    assert final(json.loads(command("describe", "latest", "-o", "json"))["job"]) == condition
    kept = list(ended.directory.glob("default.ends.yaml"))
    assert bool(kept) is (end.state != "Died")
    assert all(end.reason in file.read_text() for file in kept)

    waited = command("wait", "latest", "--timeout", "60s", code=0 if end.state == "Succeeded" else 1)
    assert ("is Succeeded" if end.state == "Succeeded" else end.reason) in waited
    assert "SuccessfulCreatePod" in command("events", "latest")
    shown = (command("events", "latest"), described, (ended.directory / "events.txt").read_text() if kept else "")
    assert [RESTARTED in text for text in shown] == (
        [end.program == "restart"] * (3 if kept else 2) + [False] * (not kept)
    )
    assert "first line" in command("logs", "latest", "--all-replicas")
    assert "[worker-0]" in command("logs", "latest", "--all-replicas", "-f")

    report = json.loads(command("report", "latest", "-o", "json"))
    assert report["outcome"] == end.state
    assert [failure["replica"] for failure in report["failures"]] == (["worker-0"] if end.program == "fail" else [])
    report_text = command("report", "latest")
    assert "kubectl" not in report_text
    assert not re.search(r"out of memory|memory ran out", report_text)

    with TFJobClient.of_run(ended.directory) as client:
        client_job = client.get_job("ends")
        assert client_job.state.word == end.state
        assert client.is_job_succeeded("ends") is (end.state == "Succeeded")
        assert client.is_job_failed("ends") is (end.state != "Succeeded")
        assert client.get_job_report("ends").outcome == end.state
        assert client.get_job_logs("ends")["ends-worker-0"].startswith("first line")


def test_who_still_runs_is_named_and_ended_by_the_next_run(ended: Ended, command: Callable[..., str]) -> None:
    if ended.end.act is not both_killed:
        eventually(lambda: not read_run(ended.directory).left, within=30, what="all of its programs have ended")
        return
    left = read_run(ended.directory).left
    assert len(left) == 2
    assert f"Programs of the run are still running. To end them: kill {left[0]} {left[1]}" in command(
        "describe", "latest"
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_chromium(tmp_path_factory.mktemp("chromium")) as chromium:
        yield chromium


@contextmanager
def page_of(browser: Browser, directory: Path) -> Iterator[Page]:
    """The page as `tfoperator ui RUN` serves it, in front of a person who has opened its only job."""
    links: list[str] = []
    with RecordedRun(directory) as run:
        server = UiServer(run.client, PageContent(local=True, run=run), on_link=links.append)
        try:
            server.start()
            with person(browser, server.port) as somebody:
                page = somebody.open(links[-1])
                page.get_by_role("link", name="ends").click()
                yield page
        finally:
            server.stop()


@pytest.mark.page
def test_the_page_agrees(ended: Ended, browser: Browser) -> None:
    end = ended.end
    with page_of(browser, ended.directory) as page:
        expect(page.locator(".title .badge")).to_have_text(end.state)
        expect(page.get_by_text("This run has ended")).to_be_visible()
        facts = page.locator(".facts").first
        expect(facts).to_contain_text("Ended")
        expect(facts).not_to_contain_text("Running for")
        expect(facts).not_to_contain_text("Ready")
        expect(page.locator(".why")).to_contain_text(re.compile(end.cause, re.IGNORECASE))
        report = page.get_by_role("tab", name="Failure report")
        if report.count():
            report.click()
            shown = page.get_by_role("tabpanel")
            expect(shown).to_contain_text("worker-")
            expect(shown).not_to_contain_text("kubectl")
            if end.program != "fail":
                expect(shown).not_to_contain_text("failed with exit code")
        if end.program == "restart":
            page.get_by_role("tab", name="Overview").click()
            expect(page.get_by_role("list", name="Events, the newest first")).to_contain_text(RESTARTED)
            page.get_by_role("button", name="worker-1").click()
            expect(page.get_by_role("region", name="Runs", exact=True)).to_contain_text(
                "exit code 1; restarted in place"
            )
