"""The guardian of process groups: a small process that kills the agent's containers if the agent itself is killed.

It runs as `python -I -S guardian_main.py SECONDS RECORDS VARIABLE MARK`, imports only small parts of the standard
library (it starts in some 20 ms) and reads its standard input: `+ PGID` and `- PGID` say which process groups live.
When the input ends, the agent is gone, in order or not, and what is left of its groups is ended: SIGTERM, so many
seconds, SIGKILL. Then it kills what has left its group, known by VARIABLE in its environment, and removes the links
that are recorded in the folder RECORDS.
PR_SET_PDEATHSIG would not do: it is Linux only, reaches one process instead of a group, and fires when the *thread*
that started the process ends.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable

_SWEEPS = 20
_PAUSE = 0.02  # seconds: a process that was killed takes a moment to end

_LINK = ".link"
"""The suffix of the record of a link."""


def alive(group: int) -> bool:
    """Whether a process group has members."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS: nobody but zombies is left in it
        return False
    return True


def send(groups: Iterable[int], number: signal.Signals) -> None:
    """Signal every group that is still there."""
    for group in groups:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            pass


def link_record(folder: str, number: int, path: str, target: str) -> str:
    """Record in a file that the link at `path` to `target` is ours; returns the file's path. Raises OSError."""
    file = os.path.join(folder, f"{number:09}{_LINK}")
    with open(file, "wb") as stream:
        stream.write(os.fsencode(path) + b"\0" + os.fsencode(target))
    return file


def remove_links(folder: str) -> None:
    """Remove the links that are recorded in this folder, the newest first: one may lie in what another leads to."""
    try:
        names = sorted((name for name in os.listdir(folder) if name.endswith(_LINK)), reverse=True)
    except OSError:
        return
    for name in names:
        file = os.path.join(folder, name)
        try:
            with open(file, "rb") as stream:
                path, _, target = stream.read().partition(b"\0")
            if os.path.islink(path) and os.readlink(path) == target:
                os.unlink(path)
            os.unlink(file)
        except (OSError, ValueError):  # gone already, or out of reach
            pass


def value_of(variable: str, environment: bytes) -> str:
    """A variable's value in an environment as the kernel shows it, "" if it isn't there."""
    name = variable.encode() + b"="
    found = next((one for one in environment.split(b"\0") if one.startswith(name)), b"")
    return os.fsdecode(found[len(name) :])


def kill_marked(variable: str, meant: Callable[[str], bool]) -> None:
    """Kill every process whose variable has a value that is meant, and what it starts meanwhile.

    Does nothing where there is no /proc.
    """
    for _ in range(_SWEEPS):
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
            except OSError:  # somebody else's, or gone
                continue
    return found


def _kill_if_still(pid: int, variable: str, mark: str) -> None:
    if sys.platform == "linux":
        handle = os.pidfd_open(pid)
        try:
            # From here on the id can't come to mean another process without being noticed.
            with open(f"/proc/{pid}/environ", "rb") as stream:
                if value_of(variable, stream.read()) == mark:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def main() -> None:
    """Keep the list until the input ends, then act on it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # its life is tied to its input and to nothing else
    groups: set[int] = set()
    for line in sys.stdin:
        action, _, group = line.strip().partition(" ")
        if action == "+":
            groups.add(int(group))
        elif action == "-":
            groups.discard(int(group))
    send(groups, signal.SIGTERM)
    end = time.monotonic() + float(sys.argv[1])
    while any(map(alive, groups)) and time.monotonic() < end:
        time.sleep(0.05)
    send(filter(alive, groups), signal.SIGKILL)
    kill_marked(sys.argv[3], lambda value: value.startswith(f"{sys.argv[4]}."))
    remove_links(sys.argv[2])


if __name__ == "__main__":
    main()
