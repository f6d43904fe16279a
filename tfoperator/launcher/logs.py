"""A container's log, line by line, over cut connections and rotated files: no line lost, none told twice.

Both platforms can put the time of writing in front of each line and can begin at a given second. After a cut the
log is read again from a little before the last line, and what was told already is left out by time *and* text, so
neither equal times nor lines out of order (standard output and error race) do harm. A server that gives no times,
like the embedded one, sends all of the log again; then lines are counted.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

__all__ = ["LOG_WINDOW", "LineSplitter", "ResumableLines"]

logger = logging.getLogger(__name__)

LOG_WINDOW = timedelta(seconds=2)
"""How far before the last line a log is read again: the servers' seconds are whole, and lines may be out of order."""

_MAX_LINE = 1 << 20
"""Bytes after which a line is told in pieces: somebody may write without line ends for ever."""

_MAX_REMEMBERED = 100_000
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)(?: |$)")


class LineSplitter:
    """Makes lines of pieces of any size. For one connection."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MAX_LINE:
            lines.append(self._rest)
            self._rest = b""
        return lines

    def end(self) -> list[bytes]:
        """What is left at the end of a log whose last line has no end."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


class ResumableLines:
    """Knows what has been told. Use in one thread.

    `position` is the time stamp of the last line that an earlier launcher has told, "" for none.
    """

    def __init__(self, tell: Callable[[str], object], position: str = "") -> None:
        self._tell = tell
        self._before = _instant(position)
        self._latest = self._before
        self.position = position
        """The time stamp of the latest line that was told."""
        self._told: deque[tuple[tuple[datetime, int], str]] = deque()  # the lines of the window, oldest first
        self._again: Counter[tuple[tuple[datetime, int], str]] = Counter()  # those that a new connection will repeat
        self._untimed = 0  # lines without a time that were told
        self._skip = 0

    def since(self) -> str:
        """From when on the next connection has to read, RFC 3339, in whole seconds; "" from the beginning."""
        if self._latest is None:
            return ""
        return (self._latest[0] - LOG_WINDOW).replace(microsecond=0).strftime("%Y-%m-%dT%H:%M:%SZ")

    def connected(self) -> None:
        """A connection begins, whose lines may have been told already."""
        self._again = Counter(self._told)
        self._skip = self._untimed

    def take(self, line: bytes) -> None:
        """Tell a line, unless it has been told."""
        text = line.decode(errors="replace")
        match = _STAMP.match(text)
        if match is None:
            self._take_untimed(text)
            return
        stamp, text = match[0].rstrip(), text[match.end() :]
        instant = _instant(stamp)
        assert instant is not None
        if self._before is not None and instant <= self._before:
            return
        entry = (instant, text)
        if self._again[entry] > 0:
            self._again[entry] -= 1
            return
        self._remember(entry)
        if self._latest is None or instant > self._latest:
            self._latest, self.position = instant, stamp
        self._tell(text)

    def _take_untimed(self, text: str) -> None:
        if self._skip > 0:
            self._skip -= 1
            return
        self._untimed += 1
        self._tell(text)

    def _remember(self, entry: tuple[tuple[datetime, int], str]) -> None:
        self._told.append(entry)
        oldest = entry[0][0] - 2 * LOG_WINDOW
        while len(self._told) > _MAX_REMEMBERED or self._told[0][0][0] < oldest:
            self._told.popleft()


def _instant(stamp: str) -> tuple[datetime, int] | None:
    """A time that compares: whole seconds in UTC, and nanoseconds, which datetime does not have."""
    match = _STAMP.match(stamp)
    if match is None:
        return None
    seconds = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00")).astimezone(UTC)
    return seconds, int((match[2] or ".0")[1:].ljust(9, "0"))
