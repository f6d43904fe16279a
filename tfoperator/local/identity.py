"""The identity of a process. A process ID alone is not enough, because the system uses IDs again.

The ID together with the start time of the process is unique while the machine runs. `tfoperator local up` records both
values. So `down` can never kill another process that has got the same ID.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import psutil

_PROC = Path("/proc/self/stat")


class ProcessIdentity(msgspec.Struct, frozen=True):
    """A process ID and the start time of the process. The unit of `started` depends on the system: only compare it."""

    pid: int
    started: str


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a running process. Return None if there is no such process. A zombie counts as ended."""
    if _PROC.exists():  # on Linux, psutil's start times change when the system's clock is set
        return _identify_linux(pid)
    return _identify_elsewhere(pid)


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether this process still runs. Another process with the same ID does not count."""
    return identify(identity.pid) == identity


def signal_process(identity: ProcessIdentity, number: signal.Signals, *, group: bool = False) -> bool:
    """Send a signal to this process; with `group`, to the process group that it leads.

    Return False if the process has ended or belongs to another user. Return False for the ID 1, too, which only a
    damaged record can contain: `killpg(1)` would send the signal to all processes that this user may signal.
    """
    if not is_alive(identity) or identity.pid <= 1:
        return False
    try:
        if group:
            os.killpg(identity.pid, number)
        else:
            os.kill(identity.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _identify_linux(pid: int) -> ProcessIdentity | None:
    try:
        # The second field, the program's name, is in parentheses and may contain `)`: count fields after the last `)`.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    state, started = fields[0], fields[19]  # proc(5): fields 3 and 22
    return None if state in "ZX" else ProcessIdentity(pid, started)


def _identify_elsewhere(pid: int) -> ProcessIdentity | None:
    try:
        process = psutil.Process(pid)
        ended = process.status() == psutil.STATUS_ZOMBIE
        return None if ended else ProcessIdentity(pid, str(process.create_time()))
    except psutil.Error:
        return None
