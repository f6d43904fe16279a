"""One fault at one place of a scenario. Values only."""

from __future__ import annotations

from enum import StrEnum

import msgspec

EVERY_KIND = "*"


class How(StrEnum):
    """What goes wrong."""

    NOTHING = "nothing"
    CRASH_BEFORE = "crash before a write"
    CRASH_AFTER = "crash after a write"
    LATE_WRITE = "a write comes when another process leads"
    LOST_EVENT = "an event is lost"
    LATE_EVENT = "an event is late"
    OLD_LIST = "a new process lists an older state"


class Fault(msgspec.Struct, frozen=True):
    """`at` is the number of a write of the operator, from 1; `kind` and `revision` are an event's, or an old list's.

    After a crash that `misses_a_step`, another process leads only when the next step of the scenario has happened.
    """

    how: How = How.NOTHING
    at: int = 0
    kind: str = ""
    revision: int = 0
    misses_a_step: bool = False

    def __str__(self) -> str:
        where = f" {self.at}" if self.at else ""
        what = f" {self.kind}@{self.revision}" if self.kind else ""
        return f"{self.how}{where}{what}{' and misses a step' if self.misses_a_step else ''}"


NO_FAULT = Fault()
