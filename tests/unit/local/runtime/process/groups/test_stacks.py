"""Stacks by py-spy, replaced by a program of the test: the questions to it, and the use of its answers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tfoperator.local.runtime.process.groups import stacks
from tfoperator.local.runtime.process.groups.stacks import find_py_spy, is_stopped, stacks_of_group


@pytest.fixture
def group() -> Iterator[int]:
    """A process in a group of its own."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def py_spy(folder: Path, script: str) -> str:
    program = folder / "py-spy"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_py_spy_is_asked_for_each_process_and_does_not_pause_one_that_is_stopped(group: int, tmp_path: Path) -> None:
    program = py_spy(tmp_path, 'echo "Thread 1 (idle): asked $*"')
    assert (
        stacks_of_group(group, tmp_path, program) == f"Process {group}:\nThread 1 (idle): asked dump --pid {group}\n\n"
    )
    os.kill(group, signal.SIGSTOP)
    eventually(lambda: is_stopped(group), within=60, what="it is stopped")
    text = stacks_of_group(group, tmp_path, py_spy(tmp_path, 'echo "asked $*"'))
    assert text == f"Process {group} (stopped by a signal):\nasked dump --pid {group} --nonblocking\n\n"


def test_a_py_spy_that_may_not_read_hangs_or_is_none_keeps_nobody_waiting_and_it_is_said_what_to_do(
    group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = py_spy(tmp_path, 'echo "Error: Permission denied: try it as root" >&2; exit 1')
    text = stacks_of_group(group, tmp_path, program)
    assert text == f"No stacks: py-spy can't read process {group}: Permission denied: try it as root.\n"
    monkeypatch.setattr(stacks, "_TIMEOUT", 0.2)
    assert "py-spy did not end within" in stacks_of_group(group, tmp_path, py_spy(tmp_path, "exec sleep 600"))
    assert "py-spy can't be started: No such file" in stacks_of_group(group, tmp_path, str(tmp_path / "nothing"))
    assert stacks_of_group(group, tmp_path, None).startswith("No stacks: install py-spy, or call tfoperator.progress.")


def test_py_spy_is_found_beside_this_python_first_and_then_in_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    assert find_py_spy() is None
    for folder in ("elsewhere", "bin"):
        (tmp_path / folder).mkdir()
        expected = py_spy(tmp_path / folder, "")
        assert find_py_spy() == expected
