"""The guardian of process groups: a small process that kills the agent's containers if the agent itself is killed.

It runs as `python -I -S guardian_main.py SECONDS RECORDS VARIABLE`, imports only small parts of the standard
library (it starts in some 20 ms) and reads its standard input: `= MARK` is the run's secret mark, `+ PGID` and `- PGID`
report the living process groups.
When the input ends, the agent is gone, cleanly or not, and its remaining groups are ended: SIGTERM, SECONDS,
SIGKILL. Then it kills processes that have left their group, found by MARK in the variable VARIABLE, and removes the
links and mount points recorded in the folder RECORDS.
PR_SET_PDEATHSIG does not suffice: it is Linux only, reaches one process instead of a group, and fires when the *thread*
that started the process ends.
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
"""The file suffixes of the records of links and mount points."""
POINT_MODE = stat.S_ISVTX | 0o700
"""The permissions of a mount point that a run has made. The sticky bit marks it: a person's empty folder has none."""


def alive(group: int) -> bool:
    """Return whether a process group has members."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS: only zombies are left in it
        return False
    return True


def send(groups: Iterable[int], number: signal.Signals) -> None:
    """Signal every group that still exists."""
    for group in groups:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            pass


def link_record(folder: str, number: int, path: str, target: str) -> str:
    """Record in a file that the link at `path` to `target` is ours; return the file's path. Raises OSError."""
    file = os.path.join(folder, f"{number:09}{_LINK_SUFFIX}")
    with open(file, "wb") as stream:
        stream.write(os.fsencode(path) + b"\0" + os.fsencode(target))
    return file


def point_record(folder: str, number: int, path: str) -> str:
    """Record in a file that the mount point at `path` is ours; return the file's path. Raises OSError."""
    file = os.path.join(folder, f"{number:09}{_POINT_SUFFIX}")
    with open(file, "wb") as stream:
        stream.write(os.fsencode(path))
    return file


def is_point(mode: int, owner: int) -> bool:
    """Return whether a folder or file with this mode and owner is a mount point that a run of this user has made."""
    return stat.S_IMODE(mode) == POINT_MODE and owner == os.geteuid() and (stat.S_ISDIR(mode) or stat.S_ISREG(mode))


def remove_point(path: str | bytes) -> None:
    """Remove a mount point, if it is empty and no run needs it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return
    try:
        found = os.fstat(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not is_point(found.st_mode, found.st_uid) or not os.path.samestat(found, os.lstat(path)):
            return
        if stat.S_ISDIR(found.st_mode):
            os.rmdir(path)
        elif found.st_size == 0:
            os.unlink(path)
    except OSError:  # a run needs it, there is something in it, or it is gone
        pass
    finally:
        os.close(descriptor)


def remove_recorded(folder: str) -> None:
    """Remove the links and mount points recorded in this folder, the newest first.

    A newer mount point may lie within an older mount point.
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
    """Return a variable's value in an environment in the kernel's format, "" if it isn't set."""
    name = variable.encode() + b"="
    found = next((variable for variable in environment.split(b"\0") if variable.startswith(name)), b"")
    return os.fsdecode(found[len(name) :])


def kill_marked(variable: str, meant: Callable[[str], bool]) -> None:
    """Kill every process with a value of the variable for which `meant` is true, and those it starts meanwhile.

    Does nothing if there is no /proc.
    """
    for _ in range(_MAX_SWEEPS):
        if not _kill_marked_once(variable, meant):
            return
        time.sleep(_PAUSE)


def _kill_marked_once(variable: str, meant: Callable[[str], bool]) -> bool:
    found = False
    if sys.platform == "linux":
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as stream:
                    mark = value_of(variable, stream.read())
                if mark and meant(mark):
                    _kill_if_still(int(entry), variable, mark)
                    found = True
            except OSError:  # another user's process, or gone
                continue
    return found


def _kill_if_still(pid: int, variable: str, mark: str) -> None:
    if sys.platform == "linux":
        handle = os.pidfd_open(pid)
        try:
            # From here on, reuse of the ID by another process is noticed.
            with open(f"/proc/{pid}/environ", "rb") as stream:
                if value_of(variable, stream.read()) == mark:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def main() -> None:
    """Record the groups until the input ends, then end them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with its input only
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
