"""The guardian of process groups: a small process that kills the node agent's containers if the agent is killed.

The guardian runs as `python -I -S guardian_main.py SECONDS RECORDS VARIABLE`, and imports only small parts of the
standard library, so it starts in some 20 ms. It reads lines from its standard input:

- `= MARK` is the run's secret mark: a random text in the environment of every process of the run's containers.
- `+ PGID` reports a new process group.
- `- PGID` reports that a process group has ended.

When the input ends, the agent has exited or was killed. The guardian then ends the agent's remaining groups: it sends
SIGTERM, waits SECONDS, and sends SIGKILL. Then the guardian kills the processes that have left their group: their
variable VARIABLE contains MARK. It also removes the links and mount points that are recorded in the folder RECORDS. The
agent makes them at the mount paths of volumes: a link leads to a volume, and a mount point is an empty folder or file.

PR_SET_PDEATHSIG does not suffice: only Linux has it, it signals one process instead of a group, and it fires when the
*thread* that started the process ends.
"""

import fcntl
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterable

_MAX_SWEEPS = 20
_PAUSE = 0.02  # seconds: a killed process takes a moment to end

_LINK_SUFFIX, _POINT_SUFFIX = ".link", ".point"
"""The suffixes of the files that record links and mount points."""
POINT_MODE = stat.S_ISVTX | 0o700
"""The permissions of a mount point that a run has made. The sticky bit distinguishes a mount point from an empty folder
that a person has made, which does not have this bit.
"""


def alive(group: int) -> bool:
    """Return whether a process group has members."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS: only zombies are left in the group
        return False
    return True


def send(groups: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to every group that still exists."""
    for group in groups:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            pass


def link_record(folder: str, number: int, path: str, target: str) -> str:
    """Write a record of a link that this run made from `path` to `target`; return the record's path. Raises OSError.

    `number` becomes the name of the record. Later records must get higher numbers: see `remove_recorded`.
    """
    file = os.path.join(folder, f"{number:09}{_LINK_SUFFIX}")
    with open(file, "wb") as stream:
        stream.write(os.fsencode(path) + b"\0" + os.fsencode(target))
    return file


def point_record(folder: str, number: int, path: str) -> str:
    """Write a record of a mount point that this run made at `path`; return the record's path. Raises OSError.

    `number` becomes the name of the record. Later records must get higher numbers: see `remove_recorded`.
    """
    file = os.path.join(folder, f"{number:09}{_POINT_SUFFIX}")
    with open(file, "wb") as stream:
        stream.write(os.fsencode(path))
    return file


def is_point(mode: int, owner: int) -> bool:
    """Return whether a folder or file with this mode and owner is a mount point that a run of this user has made."""
    return stat.S_IMODE(mode) == POINT_MODE and owner == os.geteuid() and (stat.S_ISDIR(mode) or stat.S_ISREG(mode))


def remove_point(path: str | bytes) -> None:
    """Remove a mount point, if it is empty and no run needs it.

    A run holds a lock on each mount point that it needs.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return
    try:
        status = os.fstat(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not is_point(status.st_mode, status.st_uid) or not os.path.samestat(status, os.lstat(path)):
            return
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(path)
        elif status.st_size == 0:
            os.unlink(path)
    except OSError:  # a run needs the mount point, it is not empty, or it is gone
        pass
    finally:
        os.close(descriptor)


def remove_recorded(folder: str) -> None:
    """Remove the links and mount points whose records are in this folder, beginning with the newest.

    A newer mount point may lie within an older mount point, so it is removed first. A link is removed only if it still
    leads to the recorded target.
    """
    try:
        names = sorted(
            (name for name in os.listdir(folder) if name.endswith((_LINK_SUFFIX, _POINT_SUFFIX))), reverse=True
        )
    except OSError:
        return
    for name in names:
        file = os.path.join(folder, name)
        try:
            with open(file, "rb") as stream:
                path, _, target = stream.read().partition(b"\0")
            if name.endswith(_POINT_SUFFIX):
                remove_point(path)
            elif os.path.islink(path) and os.readlink(path) == target:
                os.unlink(path)
            os.unlink(file)
        except (OSError, ValueError):  # already gone, or not accessible
            pass


def value_of(variable: str, environment: bytes) -> str:
    """Return the value of a variable in an environment as in /proc/PID/environ: `NAME=value` texts that end in NUL.

    Return "" if the variable isn't set.
    """
    name = variable.encode() + b"="
    entry = next((variable for variable in environment.split(b"\0") if variable.startswith(name)), b"")
    return os.fsdecode(entry[len(name) :])


def kill_marked(variable: str, meant: Callable[[str], bool]) -> None:
    """Kill every process in whose environment the variable has a value for which `meant` returns true.

    Also kill the processes that these processes start meanwhile: the search is repeated until no such process is left,
    at most `_MAX_SWEEPS` times. The function does nothing if the machine has no /proc.
    """
    for _ in range(_MAX_SWEEPS):
        if not _kill_marked_once(variable, meant):
            return
        time.sleep(_PAUSE)


def _kill_marked_once(variable: str, meant: Callable[[str], bool]) -> bool:
    has_killed = False
    if sys.platform == "linux":
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as stream:
                    mark = value_of(variable, stream.read())
                if mark and meant(mark):
                    _kill_if_still(int(entry), variable, mark)
                    has_killed = True
            except OSError:  # another user's process, or gone
                continue
    return has_killed


def _kill_if_still(pid: int, variable: str, mark: str) -> None:
    if sys.platform == "linux":
        handle = os.pidfd_open(pid)
        try:
            # The handle never refers to a later process with the same ID.
            with open(f"/proc/{pid}/environ", "rb") as stream:
                if value_of(variable, stream.read()) == mark:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def main() -> None:
    """Keep a list of the groups until the input ends, then do the cleanup that the module's docstring describes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the guardian ends only after its input has ended
    groups: set[int] = set()
    mark = ""
    for line in sys.stdin:
        action, _, group = line.strip().partition(" ")
        if action == "+":
            groups.add(int(group))
        elif action == "-":
            groups.discard(int(group))
        elif action == "=":
            mark = group
    send(groups, signal.SIGTERM)
    end = time.monotonic() + float(sys.argv[1])
    while any(map(alive, groups)) and time.monotonic() < end:
        time.sleep(0.05)
    send(filter(alive, groups), signal.SIGKILL)
    if mark:
        kill_marked(sys.argv[3], lambda value: value.startswith(f"{mark}."))
    remove_recorded(sys.argv[2])


if __name__ == "__main__":
    main()
