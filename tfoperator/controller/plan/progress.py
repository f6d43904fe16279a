"""What is known of a job's progress, as values, and what a look at a log adds to it. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum

import msgspec

from tfoperator.api.v1.types import OnStall
from tfoperator.controller.plan.observed import NewestLine
from tfoperator.kube.objects import Pod


class Progress(Enum):
    """What is known of a job's progress."""

    NOT_WATCHED = "it has no deadline for its progress"
    NOT_RUNNING = "not all that it needs runs"
    GOES_ON = "there is news within the deadline"
    STALLED = "there is none"
    UNKNOWN = "nobody can tell"


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job's progress, and what follows.

    `message` says why it has stalled, or why nobody can tell. `behind` are replicas by name. `look_again` is in
    seconds; `look_at` are pods whose last lines are to be read now, until one is found that is newer than `newer_than`.
    `stacks_of` are pods whose stacks are to be taken. `ends_as` is what to do about the stall now.
    """

    progress: Progress
    message: str = ""
    behind: tuple[str, ...] = ()
    look_again: float | None = None
    look_at: tuple[Pod, ...] = ()
    newer_than: datetime | None = None
    stacks_of: tuple[Pod, ...] = ()
    ends_as: OnStall = OnStall.REPORT


def new_line(
    before: NewestLine | None,
    stamp: datetime | None,
    looked: datetime,
    previous: datetime | None,
    *,
    stopped: bool = False,
) -> NewestLine:
    """What a look at a log at `looked` says of its newest line, whose own time is `stamp` (None: there is none).

    `before` is what the look at `previous` said. A line that was not there then is newer than that look, whatever its
    node's clock says.
    """
    if stamp is None:
        time = before.time if before is not None else datetime(1970, 1, 1, tzinfo=UTC)
        return NewestLine(time, before.stamp if before is not None else None, stopped)
    if before is not None and before.stamp == stamp:
        return NewestLine(before.time, stamp, stopped)
    time = min(utc(stamp), utc(looked))
    if before is not None and previous is not None:
        time = max(time, utc(previous))
    return NewestLine(time, stamp, stopped)


def utc(moment: datetime | None) -> datetime:
    """A time that names its zone; one without is in UTC, none is the oldest."""
    if moment is None:
        return datetime(1970, 1, 1, tzinfo=UTC)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
