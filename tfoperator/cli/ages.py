"""Durations as kubectl shows them: at most two units, the smaller one only while it says something. Pure."""

from __future__ import annotations

from datetime import datetime

__all__ = ["age", "duration"]

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 31_536_000


def age(since: datetime | None, now: datetime) -> str:
    """The time that has passed since; `-` if there is no such time."""
    return "-" if since is None else duration((now - since).total_seconds())


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> [duration(s) for s in (0.4, 90, 200, 600, 5000, 90_000, 900_000)]
    ['0s', '90s', '3m20s', '10m', '83m', '25h', '10d']
    """
    whole = max(0, int(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    return _two(whole, _YEAR, "y", _DAY, "d")


def _two(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_unit}" + (f"{rest}{small_unit}" if rest else "")
