"""Stacks of the Python threads in a process group: from py-spy if it is installed and permitted, else by a signal.

py-spy reads any Python process from outside, even a stopped process, if the system permits it (for root, or if ptrace
is allowed). The signal works on every system, but only for programs that have registered for it
(`tfoperator.progress.stacks`).
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
_MAX_PROCESSES = 16  # of one container: data loaders may be dozens, with the same stacks
_STOPPED_STATES = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
_HINT = "install py-spy, or call tfoperator.progress.stacks.register() in the program"


def stacks_folder(log: Path) -> Path:
    """Return the folder in which the processes of this log's container register for `tfoperator.progress.stacks`."""
    return log.with_suffix(".stacks").absolute()


def find_py_spy() -> str | None:
    """Return the path of py-spy, or None if it is not installed.

    The function searches in the folder of this Python interpreter, and then on PATH.
    """
    own = Path(sys.executable).with_name("py-spy")
    return str(own) if own.is_file() else shutil.which("py-spy")


def stacks_of_group(group: int, folder: Path, py_spy: str | None) -> str:
    """Return the stacks of the group's processes (`_MAX_PROCESSES` at most), or the reason why there are none.

    `folder` is the folder in which processes register for the signal. `py_spy` is the path of py-spy, or None. The call
    blocks for some seconds for each process that does not respond.
    """
    stacks: dict[int, str] = {}
    refused = ""
    processes = _processes(group)[:_MAX_PROCESSES]
    if py_spy is not None:
        for pid, state in processes:
            text, problem = _spy(py_spy, pid, stopped=state in _STOPPED_STATES)
            if text:
                stacks[pid] = text
            refused = refused or problem
    for pid, text in take(folder, group=group):
        stacks.setdefault(pid, text)
    if not stacks:
        stopped = [str(pid) for pid, state in processes if state in _STOPPED_STATES]
        halted = f" Stopped by a signal: process {', '.join(stopped)}." if stopped else ""
        return f"No stacks: {refused or _HINT}.{halted}\n"
    return "".join(f"Process {pid}{_stopped(pid, processes)}:\n{text}\n" for pid, text in stacks.items())


def is_stopped(group: int) -> bool:
    """Return whether a process of the group is suspended, for example by SIGSTOP."""
    return any(state in _STOPPED_STATES for _, state in _processes(group))


def _stopped(pid: int, processes: list[tuple[int, str]]) -> str:
    return " (stopped by a signal)" if (pid, psutil.STATUS_STOPPED) in processes else ""


def _spy(program: str, pid: int, *, stopped: bool) -> tuple[str, str]:
    """Return py-spy's output for a process, and its error message. Both are "" for a process that isn't Python."""
    # py-spy pauses a process while it reads, which is impossible if the process is already stopped.
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
    return "", f"py-spy can't read process {pid}: {problem}"


def _processes(group: int) -> list[tuple[int, str]]:
    """Return the processes of the group with their states, ordered by process ID, without zombies."""
    processes = []
    for pid in psutil.pids():
        try:
            if os.getpgid(pid) == group and (state := psutil.Process(pid).status()) != psutil.STATUS_ZOMBIE:
                processes.append((pid, state))
        except (OSError, psutil.Error):
            continue
    return sorted(processes)
