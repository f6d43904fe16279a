"""The identity of a process: a process ID alone is not enough, since the system reuses it.

The ID together with the process's start time is unique while the machine runs. `tfoperator local up` records that pair,
so that `down` can never kill another process that has reused the ID.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import psutil

_PROC = Path("/proc/self/stat")


class ProcessIdentity(msgspec.Struct, frozen=True):
    """A process ID and its start time, in the system's units (compare only)."""

    pid: int
    started: str


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a running process, None if there is none. A zombie counts as ended."""
    if _PROC.exists():  # psutil's start times there depend on the clock, which may be set meanwhile
        return _identify_linux(pid)
    return _identify_elsewhere(pid)


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether this very process still runs."""
    return identify(identity.pid) == identity


def signal_process(identity: ProcessIdentity, number: signal.Signals, *, group: bool = False) -> bool:
    """Signal this process, or the process group that it leads; return False if it is gone or not ours.

    A record that names init is spoilt: the kernel takes its group for all processes that we may signal.
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
        # The second field is the name in parentheses. It may contain parentheses, too: count fields after the last.
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
