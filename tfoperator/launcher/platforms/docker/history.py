"""Decides from an engine's events whether a container ended by itself or was stopped: a pure function.

A container's state does not show whether `docker stop` ended it: a program that handles SIGTERM and exits with 0 looks
like a program that has completed its work. But for each signal that a user sends through the engine, the engine records
an event `kill` while it holds the container's lock. So this event comes before the event `die` of the end that the
signal causes. (Docker 20.10 and later, `daemon/kill.go` of Moby.) The engine keeps the last 256 events of all
containers in memory. So after a restart, an engine has lost its earlier events.
"""

from __future__ import annotations

import enum
import signal
from collections.abc import Iterable

import msgspec

_ENDING = frozenset({signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGQUIT})
"""Signals that request the end of a program. Other signals (SIGHUP, SIGUSR1 ...) have another meaning, and the program
continues.
"""


class ContainerEvent(msgspec.Struct, frozen=True):
    """One event of a container. `signal` is the number of the signal of a `kill`. It is 0 for other actions."""

    action: str
    signal: int = 0


class EndCause(enum.Enum):
    """The cause of a container's end, if the engine's events show it."""

    ITSELF = "the program ended by itself"
    STOPPED = "the container was stopped, and then ended"
    UNKNOWN = "the engine has no event of the end"


def cause_of_end(events: Iterable[ContainerEvent], stop_signal: str = "") -> EndCause:
    """Return the cause of a container's first end. It reads only the events up to this end.

    `events` are the events of one container, the oldest event first. `stop_signal` is the signal that `docker stop`
    sends to the container, in the format of the container's config; "" means SIGTERM.
    """
    ending = _ENDING | {_number(stop_signal)}
    stopped = False
    for event in events:
        if event.action == "kill":
            stopped = stopped or event.signal in ending
        elif event.action == "die":
            return EndCause.STOPPED if stopped else EndCause.ITSELF
    return EndCause.UNKNOWN


def _number(name: str) -> int:
    """Return the number of a signal in one of Docker's formats: `SIGINT`, `INT` or `2`.

    For anything else return the number of SIGTERM.
    """
    if name.isdecimal():
        return int(name)
    return int(signal.Signals.__members__.get(f"SIG{name.upper().removeprefix('SIG')}", signal.SIGTERM))
