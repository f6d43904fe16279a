"""Folds log lines that several replicas print: a line is shown once, and its prefix is, for example, `4 replicas`.

This concerns only the lines that TensorFlow itself prints. No I/O.
"""

from __future__ import annotations

import re

import msgspec

WAIT = 2.0
"""The number of seconds for which a line of TensorFlow is held back, because other replicas may print the same line."""

_MOST = 200
"""The maximum number of different lines that are held back. Further lines are shown at once."""

_OWN_LINE = re.compile(
    r"[IW]\d{4} \d\d:\d\d:\S+ +\d+ \S+\.cc:\d+\] "  # absl's log
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IW] (tensorflow|external)/"  # TensorFlow's, until 2.19
    r"|WARNING: All log messages before absl::InitializeLog"
    r"|To enable the following instructions: "
)
_BEGINS_MESSAGE = re.compile(r":$|(?:status|Abort): ?(?:UNAVAILABLE|UNKNOWN|ABORTED|INTERNAL|DEADLINE_EXCEEDED)\b")
"""Matches the first line of a message of several lines. Such a line is not held back. Otherwise it would be shown after
the other lines of its message.
"""
_VARYING = re.compile(r"\d+")


class _Waiting(msgspec.Struct):
    text: str
    since: float
    prefixes: list[str]


class Folding:
    """Holds back log lines of TensorFlow itself for WAIT seconds. Not thread-safe. Times are in seconds."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}

    def holds(self, prefix: str, text: str, now: float) -> bool:
        """Hold back the line `text` of the replica `prefix` if TensorFlow itself has printed the line.

        Return True if the line is held back: the caller must not show it now. A replica's line is not held back if the
        same line of this replica is already held back, if the line begins a message of several lines, or if too many
        lines are held back. Lines that differ only in times and numbers count as the same line.
        """
        if text[:1] not in "IWT2" or not _OWN_LINE.match(text) or _BEGINS_MESSAGE.search(text):
            return False
        waiting = self._waiting.get(key := _VARYING.sub("#", text))
        if waiting is None and len(self._waiting) >= _MOST:
            return False
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(text, now, [])
        elif prefix in waiting.prefixes:
            return False  # the same replica prints the line again: show it
        waiting.prefixes.append(prefix)
        return True

    def due(self, now: float) -> list[tuple[str, str]]:
        """Return the lines that were held back for WAIT seconds, as (prefix, text), and forget them.

        The prefix is the replica's name or, if several replicas printed the line, their number: `4 replicas`.
        """
        over = [key for key, waiting in self._waiting.items() if now >= waiting.since + WAIT]
        due = [self._waiting.pop(key) for key in over]
        return [(_prefix(waiting.prefixes), waiting.text) for waiting in due]


def _prefix(prefixes: list[str]) -> str:
    return prefixes[0] if len(prefixes) == 1 else f"{len(prefixes)} replicas"
