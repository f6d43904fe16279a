"""Folds TensorFlow's own first lines, which all replicas print: each is shown once, with the number of replicas.

No I/O.
"""

from __future__ import annotations

import re

import msgspec

WAIT = 2.0
"""The number of seconds for which such a line waits until other replicas print the same line."""

_MOST = 200
"""The maximum number of different lines that wait; further lines are shown at once."""

_OWN_LINE = re.compile(
    r"[IW]\d{4} \d\d:\d\d:\S+ +\d+ \S+\.cc:\d+\] "  # absl's log
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] (tensorflow|external)/"  # TensorFlow's, until 2.19
    r"|WARNING: All log messages before absl::InitializeLog"
    r"|To enable the following instructions: "
)
_BEGINS_MESSAGE = re.compile(r":$|(?:status|Abort): ?(?:UNAVAILABLE|UNKNOWN|ABORTED|INTERNAL|DEADLINE_EXCEEDED)\b")
"""A line that belongs to a message of several lines: if it were held back, it would be shown after the lines that
follow it.
"""
_VARYING = re.compile(r"\d+")


class _Waiting(msgspec.Struct):
    text: str
    since: float
    prefixes: list[str]


class Folding:
    """Holds back TensorFlow's first lines for a short time. Not thread-safe; times are in seconds."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}

    def holds(self, prefix: str, text: str, now: float) -> bool:
        """Return whether the line is held back, as one of TensorFlow's own."""
        if text[:1] not in "IWT2" or not _OWN_LINE.match(text) or _BEGINS_MESSAGE.search(text):
            return False
        waiting = self._waiting.get(key := _VARYING.sub("#", text))
        if waiting is None and len(self._waiting) >= _MOST:
            return False
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(text, now, [])
        elif prefix in waiting.prefixes:
            return False  # the same replica prints it again: that is news
        waiting.prefixes.append(prefix)
        return True

    def due(self, now: float) -> list[tuple[str, str]]:
        """Return the lines that have waited long enough.

        Each has its replica or, if several replicas printed it, their number.
        """
        over = [key for key, waiting in self._waiting.items() if now >= waiting.since + WAIT]
        found = [self._waiting.pop(key) for key in over]
        return [(_prefix(waiting.prefixes), waiting.text) for waiting in found]


def _prefix(prefixes: list[str]) -> str:
    return prefixes[0] if len(prefixes) == 1 else f"{len(prefixes)} replicas"
