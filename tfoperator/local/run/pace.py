"""How many lines a terminal is given at a time, so that it keeps up and no replica hides the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

LEAST = 50
"""Lines in a round that are shown on the slowest terminal."""

MOST = 2000
"""Lines in a round that are shown on the fastest: more than anybody reads, and ten redraws a second."""

_SLOW = 0.1
"""Seconds for a round after which the next one is shorter: a person waits that long for an answer without noticing."""

_FAST = 0.03
"""Seconds for a round below which the next one may be longer."""

_BEHIND = 10
"""Rounds that it may take to show what is waiting; if it took more, lines are passed over."""

K = TypeVar("K")


class Pace(msgspec.Struct, frozen=True):
    """How many lines the next round may have."""

    lines: int = MOST // 2

    def after(self, shown: int, seconds: float) -> Pace:
        """The pace after a round that has shown so many lines in that time."""
        if seconds > _SLOW:
            return Pace(max(LEAST, self.lines // 2))
        if shown >= self.lines and seconds < _FAST:
            return Pace(min(MOST, self.lines * 2))
        return self


def fair_shares(waiting: Mapping[K, int], lines: int) -> dict[K, int]:
    """How many lines each log gets in a round: all that it has, or as many as any other; one at least, if it has any.

    The sum is `lines` at most, or one for each log if those are more.
    """
    shares: dict[K, int] = {}
    left = lines
    in_turn = sorted((log for log in waiting if waiting[log]), key=lambda log: waiting[log])
    for number, log in enumerate(in_turn):
        share = min(waiting[log], max(1, left // (len(in_turn) - number)))
        shares[log] = share
        left -= share
    return shares


def is_behind(waiting: int, share: int) -> bool:
    """Whether a log with so many lines to show, and that share of a round, must pass over some."""
    return waiting > _BEHIND * share
