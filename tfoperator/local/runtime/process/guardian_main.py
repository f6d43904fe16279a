"""The guardian of process groups: a small process that kills the agent's containers if the agent itself is killed.

It runs as `python -I -S guardian_main.py SECONDS RECORDS`, imports only small parts of the standard library (it starts
in some 20 ms) and reads its standard input: `+ PGID` and `- PGID` say which process groups are alive. When the input
ends, the agent is gone, in order or not, and what is left of its groups is ended: SIGTERM, so many seconds, SIGKILL.
Then it removes the links at mount paths that are recorded in the folder RECORDS.
PR_SET_PDEATHSIG would not do: it is Linux only, reaches one process instead of a group, and fires when the *thread*
that started the process ends.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable

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
    remove_links(sys.argv[2])


if __name__ == "__main__":
    main()
