"""Decides from a Docker engine's events whether a container ended by itself or was stopped. Pure.

The state of a container does not show whether `docker stop` ended it: a program that handles SIGTERM can exit with 0,
as a program that has completed its work. But for each signal that a user sends through the engine, the engine records
an event `kill`. This event comes before the event `die` for the end of the program, because the engine holds the
container's lock (Docker 20.10 and later, `daemon/kill.go` of Moby). The engine keeps only the last 256 events of all
containers, in memory. So a restart of the engine loses them.
"""

from __future__ import annotations

import enum
import signal
from collections.abc import Iterable

import msgspec

_ENDING = frozenset({signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGQUIT})
"""Signals that request the end of a program. After another signal, such as SIGUSR1, a program normally continues."""


class ContainerEvent(msgspec.Struct, frozen=True):
    """One event of a container. `action` is `kill` or `die`. For `kill`, `signal` is the number of the signal."""

    action: str
    signal: int = 0


class EndCause(enum.Enum):
    """The cause of a container's end, if the engine's events show it."""

    ITSELF = "the program ended by itself"
    STOPPED = "the container was stopped, and then ended"
    UNKNOWN = "the engine has no event of the end"


def cause_of_end(events: Iterable[ContainerEvent], stop_signal: str = "") -> EndCause:
    """Return the cause of a container's first end. Read only the events up to the first `die`.

    `events` are the events of one container, the oldest event first. `stop_signal` is the container's setting
    `StopSignal`, the signal that `docker stop` sends, such as `SIGINT`; "" means SIGTERM.
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
