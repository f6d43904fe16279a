"""Stacks of the Python threads in a process group: by py-spy if it is there and may look, else by the signal.

py-spy reads any Python process from outside, one that is stopped too, where the system lets it (as root, or with ptrace
allowed). The signal works everywhere, but only for programs that have registered (`tfoperator.progress.stacks`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil

from tfoperator.progress.stacks import take

_TIMEOUT = 10.0  # seconds for one process
_MAX_PROCESSES = 16  # of one container: data loaders come by the dozen and say the same
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
_HOW = "install py-spy, or call tfoperator.progress.stacks.register() in the program"


def stacks_folder(log: Path) -> Path:
    """Where the processes register whose log this is."""
    return log.with_suffix(".stacks").absolute()


def find_py_spy() -> str | None:
    """The program, beside this Python or in the path."""
    own = Path(sys.executable).with_name("py-spy")
    return str(own) if own.is_file() else shutil.which("py-spy")


def stacks_of_group(group: int, folder: Path, py_spy: str | None) -> str:
    """The stacks of all processes of the group, or why there are none. `folder` is where they register.

    Blocks for some seconds for each process that does not answer.
    """
    told: dict[int, str] = {}
    refused = ""
    processes = _processes(group)[:_MAX_PROCESSES]
    if py_spy is not None:
        for pid, state in processes:
            text, problem = _spy(py_spy, pid, stopped=state in _STOPPED)
            if text:
                told[pid] = text
            refused = refused or problem
    for pid, text in take(folder, group=group):
        told.setdefault(pid, text)
    if not told:
        stopped = [str(pid) for pid, state in processes if state in _STOPPED]
        halted = f" Stopped by a signal: process {', '.join(stopped)}." if stopped else ""
        return f"No stacks: {refused or _HOW}.{halted}\n"
    return "".join(f"Process {pid}{_stopped(pid, processes)}:\n{text}\n" for pid, text in told.items())


def is_stopped(group: int) -> bool:
    """Whether a process of the group is stopped by a signal."""
    return any(state in _STOPPED for _, state in _processes(group))


def _stopped(pid: int, processes: list[tuple[int, str]]) -> str:
    return " (stopped by a signal)" if (pid, psutil.STATUS_STOPPED) in processes else ""


def _spy(program: str, pid: int, *, stopped: bool) -> tuple[str, str]:
    """What py-spy says of a process, and why it doesn't; neither of a process that isn't Python."""
    # It pauses a process while it reads, which it can't do to one that is stopped.
    command = [program, "dump", "--pid", str(pid), *(("--nonblocking",) if stopped else ())]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return "", f"py-spy did not end within {_TIMEOUT:.0f} s"
    except OSError as error:
        return "", f"py-spy can't be started: {error.strerror}"
    if done.returncode == 0:
        return done.stdout, ""
    problem = (done.stderr.strip().splitlines() or ["no reason given"])[0].removeprefix("Error: ")
    return "", f"py-spy can't look at process {pid}: {problem}"


def _processes(group: int) -> list[tuple[int, str]]:
    """The processes of the group with their states, the first one first."""
    found = []
    for pid in psutil.pids():
        try:
            if os.getpgid(pid) == group and (state := psutil.Process(pid).status()) != psutil.STATUS_ZOMBIE:
                found.append((pid, state))
        except (OSError, psutil.Error):
            continue
    return sorted(found)
