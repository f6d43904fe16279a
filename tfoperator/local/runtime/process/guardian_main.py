"""The guardian of process groups: a small process that kills the agent's containers if the agent itself is killed.

It runs as `python -I -S guardian_main.py SECONDS`, imports only small parts of the standard library (it starts in some
20 ms) and reads its standard input: `+ PGID` and `- PGID` say which process groups are alive. When the input ends,
the agent is gone, in order or not, and what is left of its groups is ended: SIGTERM, so many seconds, SIGKILL.
PR_SET_PDEATHSIG would not do: it is Linux only, reaches one process instead of a group, and fires when the *thread*
that started the process ends.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable


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


if __name__ == "__main__":
    main()
