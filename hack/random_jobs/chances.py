"""Random choices that jobs and pods are made of: numbers, moments, members that may be missing."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hack.simulated_objects import NOW

_TIMES = (*(NOW + timedelta(seconds=s) for s in (-90000, -61, -1, 0, 0.5, 3600)),)
_EXTREME_TIMES = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC))


def number(rng: random.Random, usual: Sequence[int], bound: int) -> int:
    """Mostly a usual number, and sometimes any up to the bound, of either sign."""
    return rng.choice(usual) if not chance(rng, 0.05) else rng.randint(-bound, bound)


def chance(rng: random.Random, share: float) -> bool:
    """True in that share of cases, and never for small numbers: what Hypothesis finds shrinks to a plain job."""
    return rng.random() >= 1 - share


def some(rng: random.Random, share: float, **makers: Callable[[], Any]) -> dict[str, Any]:
    """Each of these members with that chance."""
    return {name: make() for name, make in makers.items() if chance(rng, share)}


def moment(rng: random.Random) -> datetime:
    """Mostly near to now."""
    first, last, _ = _EXTREME_TIMES
    if chance(rng, 0.03):
        return first + timedelta(seconds=rng.randrange(int((last - first).total_seconds())))
    return rng.choice(_TIMES if not chance(rng, 0.05) else _EXTREME_TIMES)


def timestamp(rng: random.Random) -> str:
    """A moment as a status has it, or as it should not: without a time zone."""
    return moment(rng).replace(tzinfo=UTC if not chance(rng, 0.02) else None).isoformat()
