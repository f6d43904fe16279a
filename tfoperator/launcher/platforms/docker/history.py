"""Decides from an engine's events whether a container ended by itself or was stopped: a pure function.

An engine keeps no trace of `docker stop` in a container's state: a program that answers SIGTERM with exit code 0 looks
like a program whose work is done. But each signal that is sent through the engine is an event `kill`, which the engine
records while it holds the container's lock; so it comes before the event `die` of the end that it causes. (Docker 20.10
and later, `daemon/kill.go` of Moby.) Events are kept in memory, the last 256 of all containers, so an engine that was
restarted has lost its earlier events.
"""

from __future__ import annotations

import enum
import signal
from collections.abc import Iterable

import msgspec

_ENDING = frozenset({signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGQUIT})
"""Signals that ask a program to end. Others (SIGHUP, SIGUSR1 ...) ask it for something else, and it goes on."""


class ContainerEvent(msgspec.Struct, frozen=True):
    """One event of a container. `signal` is the number of the signal of a `kill`, 0 for other actions."""

    action: str
    signal: int = 0


class EndCause(enum.Enum):
    """The cause of a container's end, as far as the engine's events show it."""

    ITSELF = "the program ended by itself"
    STOPPED = "the container was stopped, and then ended"
    UNKNOWN = "the engine has no event of the end"


def cause_of_end(events: Iterable[ContainerEvent], stop_signal: str = "") -> EndCause:
    """Return the cause of a container's first end. Reads the events up to this end.

    `events` are the events of one container, the oldest first; `stop_signal` is the signal that `docker stop` sends it,
    as its config has it, "" for SIGTERM.
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
    """Return the number of a signal as Docker writes it: `SIGINT`, `INT` or `2`; SIGTERM's for anything else."""
    if name.isdecimal():
        return int(name)
    return int(signal.Signals.__members__.get(f"SIG{name.upper().removeprefix('SIG')}", signal.SIGTERM))
