"""One fault at one place of a scenario. Values only."""

from __future__ import annotations

from enum import StrEnum

import msgspec

EVERY_KIND = "*"


class How(StrEnum):
    """The kinds of faults."""

    NOTHING = "nothing"
    CRASH_BEFORE = "crash before a write"
    CRASH_AFTER = "crash after a write"
    LATE_WRITE = "a write comes when another process leads"
    LOST_EVENT = "an event is lost"
    LATE_EVENT = "an event is late"
    OLD_LIST = "a new process lists an older state"
    DELETED_JOB = "the job is deleted"
    CHANGED_SCOPE = "restartScope is changed"


class Fault(msgspec.Struct, frozen=True):
    """`at` is the number of a write of the operator, from 1; `kind` and `revision` are an event's, or an old list's.

    The `restartScope` of each job is changed after the write `at`, from Job to Replica or the other way round.

    After a crash that `misses_a_step`, another process leads only when the next step of the scenario has happened.

    A job is deleted as soon as there is the `revision`, by the `policy` of propagation, and made `again` at once if
    that is set. The watches of the kinds in `kind`, with + between them, show nothing more until the others have shown
    `at` events; `EVERY_KIND` means that the operator is killed then.
    """

    how: How = How.NOTHING
    at: int = 0
    kind: str = ""
    revision: int = 0
    misses_a_step: bool = False
    policy: str = ""
    again: bool = False

    def __str__(self) -> str:
        where = f" {self.at}" if self.at else ""
        event = f" {self.kind}@{self.revision}" if self.kind or self.revision else ""
        how = f" {self.policy}" if self.policy else ""
        return (
            f"{self.how}{where}{event}{how}{' and misses a step' if self.misses_a_step else ''}"
            f"{' and made again' if self.again else ''}"
        )

    @property
    def late_kinds(self) -> tuple[str, ...]:
        """The kinds whose watches are late."""
        return tuple(self.kind.split("+")) if self.kind not in ("", EVERY_KIND) else ()


NO_FAULT = Fault()
