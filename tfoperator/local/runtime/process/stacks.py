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

from tfoperator.progress.stacks import take

_TIMEOUT = 10.0  # seconds for one process
_MAX_PROCESSES = 16  # of one container: data loaders come by the dozen and say the same
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
            text, problem = _spy(py_spy, pid, stopped=state in "Tt")
            if text:
                told[pid] = text
            refused = refused or problem
    for pid, text in take(folder, group=group):
        told.setdefault(pid, text)
    if not told:
        stopped = [str(pid) for pid, state in processes if state in "Tt"]
        halted = f" Stopped by a signal: process {', '.join(stopped)}." if stopped else ""
        return f"No stacks: {refused or _HOW}.{halted}\n"
    return "".join(f"Process {pid}{_stopped(pid, processes)}:\n{text}\n" for pid, text in told.items())


def is_stopped(group: int) -> bool:
    """Whether a process of the group is stopped by a signal; False where that can't be seen."""
    return any(state in ("T", "t") for _, state in _processes(group))


def _stopped(pid: int, processes: list[tuple[int, str]]) -> str:
    return " (stopped by a signal)" if (pid, "T") in processes else ""


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
    """The processes of the group with the letter of their state, the first one first; that one alone without /proc."""
    found = []
    try:
        entries = os.listdir("/proc")
    except OSError:
        return [(group, "")]
    for entry in entries:
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text(errors="replace")
        except OSError:
            continue
        # The name before it is in parentheses and may hold anything.
        state, _, pgrp, *_ = stat.rpartition(")")[2].split()
        if int(pgrp) == group and state != "Z":
            found.append((int(entry), state))
    return sorted(found)
