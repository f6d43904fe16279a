"""Durations as text: reads texts such as `1h30m` or `90`; writes durations exactly, or short like kubectl's ages."""

from __future__ import annotations

import math
import re

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 31_536_000

_FORMS = (
    # limit in seconds: the unit and its letter, the smaller unit (0 for none) and its letter
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (math.inf, _YEAR, "y", 0, ""),
)

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile("".join(rf"(?:(?P<{unit}>\d+(?:\.\d+)?){unit})?" for unit in _UNITS), re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a text such as `15s`, `5m`, `1h30m` or `250ms`, with the largest unit first.

    A bare number means seconds. Raises ValueError for any other text, including a negative number.
    """
    written = text.strip()
    match = _DURATION.fullmatch(written)
    if match and written:
        return sum(float(amount) * _UNITS[unit] for unit, amount in match.groupdict().items() if amount)
    try:
        seconds = float(written)
    except ValueError:
        seconds = -1.0
    if seconds < 0 or not math.isfinite(seconds):
        raise ValueError(f"must be a duration such as 15s, 5m or 1h30m, but is {text!r}")
    return seconds


def format_duration(seconds: float) -> str:
    """Return the text that `parse_duration` reads as these seconds, in the largest unit that gives a whole number."""
    for unit in "hm":
        if seconds >= _UNITS[unit] and seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:.0f}{unit}"
    return f"{seconds:.12g}s"


def human_duration(seconds: float) -> str:
    """Write a duration in at most two units, as HumanDuration of k8s.io/apimachinery does: `3m20s`, `10m`.

    A negative number above -2 gives `0s`, because clocks are inexact; a smaller number gives `<invalid>`.

    >>> [human_duration(s) for s in (0.4, 90, 200, 600, 5000, 90_000, 900_000)]
    ['0s', '90s', '3m20s', '10m', '83m', '25h', '10d']
    """
    if seconds <= -2:
        return "<invalid>"
    whole = max(0, int(seconds))
    _, large, unit, small, small_unit = next(form for form in _FORMS if whole < form[0])
    rest = whole % large // small if small else 0
    return f"{whole // large}{unit}" + (f"{rest}{small_unit}" if rest else "")
