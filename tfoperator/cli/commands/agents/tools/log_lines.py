"""Selects lines of a log: around a time, around a text, or at the end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

GAP = "..."
"""This line replaces the lines that are left out between two matches."""


def with_times(text: str) -> list[tuple[datetime | None, str]]:
    """Return the lines of a log that was read with timestamps, each with its time.

    For a line without a timestamp, for example in an archived log, the time is None.
    """
    return [_timed(line) for line in text.split("\n")]


def _timed(line: str) -> tuple[datetime | None, str]:
    stamp, _, rest = line.partition(" ")
    try:
        # Kubernetes writes nanoseconds, of which Python reads six digits.
        seconds, dot, fraction = stamp.removesuffix("Z").partition(".")
        when = datetime.fromisoformat(f"{seconds}{dot}{fraction[:6]}+00:00" if stamp.endswith("Z") else stamp)
    except ValueError:
        return None, line
    return (when, rest) if when.tzinfo is not None else (None, line)


def matching(lines: Sequence[str], pattern: str) -> list[int]:
    """Return the positions of the lines that contain `pattern`, in any letter case."""
    wanted = pattern.casefold()
    return [at for at, line in enumerate(lines) if wanted in line.casefold()]


def nearest(times: Sequence[datetime | None], around: datetime) -> list[int]:
    """Return a list with the position of the line whose time is nearest to `around`, or [] if no line has a time."""
    distances = [(abs((when - around).total_seconds()), at) for at, when in enumerate(times) if when is not None]
    return [min(distances)[1]] if distances else []


def around(lines: Sequence[str], places: Iterable[int], context: int, limit: int) -> list[str]:
    """Return the lines at these positions, with `context` lines before and after each.

    At most the last `limit` lines are returned. The line `...` replaces the lines that are left out between two
    matches.
    """
    wanted: list[int] = []
    for place in places:
        first = max(place - context, wanted[-1] + 1 if wanted else 0)
        wanted += range(first, min(place + context + 1, len(lines)))
    wanted = wanted[-limit:]
    shown: list[str] = []
    for number, at in enumerate(wanted):
        if number and at > wanted[number - 1] + 1:
            shown.append(GAP)
        shown.append(lines[at])
    return shown
