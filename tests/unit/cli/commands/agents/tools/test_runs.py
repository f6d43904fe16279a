"""Runs that an agent has started. The MCP server stops them when it ends."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.threads import InThread
from tfoperator.cli.commands.agents.tools.runs import StartedRuns
from tfoperator.cli.terminal.errors import CliError

# A replacement for `tfoperator run`. It records each SIGINT, and ends some time after the first SIGINT.
PROGRAM = """
import pathlib, signal, sys, time
notes = pathlib.Path(sys.argv[1])
seconds = float(sys.argv[2])
ends = []
def note(*_):
    with notes.open("a") as file:
        file.write("SIGINT\\n")
    ends.append(time.monotonic() + seconds)
signal.signal(signal.SIGINT, note)
pathlib.Path(sys.argv[1] + ".ready").touch()
while not ends or time.monotonic() < ends[0]:
    time.sleep(0.01)
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StartedRuns:
    """Two runs that end some time after their first SIGINT."""
    monkeypatch.chdir(tmp_path)
    started_runs = StartedRuns()
    for number, seconds in ((1, 0.5), (2, 1.0)):
        notes = tmp_path / f"run-{number}"
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(notes), str(seconds)])
        eventually(Path(f"{notes}.ready").exists)
        started_runs._processes[f"run-{number}"] = process
    return started_runs


def test_each_run_gets_one_signal_for_it_would_kill_its_programs_after_a_second_one(
    started: StartedRuns, tmp_path: Path
) -> None:
    for _ in range(2):
        started.stop("run-2")
        time.sleep(0.1)
    started.stop_all()
    assert [(tmp_path / f"run-{number}").read_text() for number in (1, 2)] == ["SIGINT\n"] * 2


def test_a_run_that_begins_while_the_server_ends_is_stopped_or_never_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server's threads still work on calls when the server ends."""
    monkeypatch.chdir(tmp_path)
    started_runs, launched, go_on = StartedRuns(), threading.Event(), threading.Event()
    processes: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def slow(words: list[str], **options: Any) -> subprocess.Popen[bytes]:
        processes.append(popen([sys.executable, "-c", PROGRAM, str(tmp_path / "notes"), "0"], **options))
        eventually((tmp_path / "notes.ready").exists)
        launched.set()
        assert go_on.wait(10)
        return processes[0]

    monkeypatch.setattr(subprocess, "Popen", slow)
    starting = InThread(lambda: started_runs.start(Path("train.py"), ["run", "train.py"]))
    assert launched.wait(10)
    stopping = InThread(started_runs.stop_all)
    threading.Timer(0.2, go_on.set).start()
    stopping.result()
    try:
        assert processes[0].poll() is not None, "the run would outlive the server"
    finally:
        processes[0].kill()
    with pytest.raises(CliError):
        starting.result()
    with pytest.raises(CliError, match="the server is ending"):
        started_runs.start(Path("train.py"), ["run", "train.py"])
    assert len(processes) == 1
