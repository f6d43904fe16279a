"""Computes marks on the timeline of an elastic job: the changes of its number of workers, with their costs. Pure."""

from __future__ import annotations

import msgspec

from tfoperator.api.v1.parts.elastic import ElasticStatus, Resize
from tfoperator.ui.streaming import seconds, short


class ResizeMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the number of workers from `before` to `workers`. Times are in seconds since 1970.

    `cost` is a text about the time without training, and `why` is a text with the reason. `end` is the time at which
    the job trained again, was suspended or ended; None if the job does not train again yet. `time` is None only if the
    status has no time of the change.
    """

    time: float | None
    before: int
    workers: int
    cost: str
    why: str = ""
    end: float | None = None


def resize_marks(elastic: ElasticStatus | None) -> tuple[ResizeMark, ...]:
    """Return a mark for each recorded change, the oldest first."""
    return () if elastic is None else tuple(map(_mark, elastic.last_resizes()))


def _mark(resize: Resize) -> ResizeMark:
    time, untrained = seconds(resize.time), resize.untrained_seconds
    return ResizeMark(
        time=time,
        before=resize.before,
        workers=resize.workers,
        cost=resize.cost,
        why=short(resize.reason),
        end=None if time is None or untrained is None else time + max(untrained, 0),
    )
