"""A container's log as lines, over cut connections and rotated files: no line lost, none twice. Pure.

Kubelets and Docker engines can put the time of writing in front of each line and can begin at a given second. After a
cut the log is read again from a little before the last line, and what is known already is left out by time *and* text,
so neither equal times nor lines out of order (standard output and error race) do harm. A server that gives no times,
like the embedded one, sends all of the log again; then lines are counted.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from datetime import UTC, datetime, timedelta

LOG_WINDOW = timedelta(seconds=2)
"""How far before the last line a log is read again: the servers' seconds are whole, and lines may be out of order."""

MAX_LINE = 1 << 20
"""Bytes after which a line is emitted in pieces: a program may write without line ends for ever."""

_MAX_REMEMBERED = 100_000
_EARLIEST_YEAR = 1970  # before there were containers, times are mistakes, and the earliest can't be counted back from
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)(?: |$)")
_NANOSECONDS = len(".000000000")
"""Servers that give times always write nine digits (kubelets since kubernetes/kubernetes#91207, Docker). The time stamp
of a program itself, at the beginning of a log without times, hardly has so many."""

_Instant = tuple[datetime, int]
"""A time that compares: whole seconds in UTC, and nanoseconds, which datetime does not have."""


class ResumableLines:
    """Which lines of a log that is read again are new. Use in one thread.

    `position` is the time stamp of the last line that an earlier process has seen, "" for none. Of a log without times
    whose last lines alone were asked for at first, older lines come as new after a cut: nothing distinguishes them.
    """

    def __init__(self, position: str = "", *, keep_times: bool = False) -> None:
        """With `keep_times` each line begins with its time, where the server gives one."""
        self._keep_times = keep_times
        self.position = position
        """The time stamp of the latest line."""
        self._before = _instant(position)
        self._latest = self._before
        self._seen: deque[tuple[_Instant, str]] = deque()  # the lines of the last seconds, oldest first
        self._untimed = 0  # lines without a time that were seen
        # Of the current connection:
        self._again: Counter[tuple[_Instant, str]] = Counter()  # lines that it will repeat
        self._catching_up = False  # no line of it has been repeated yet
        self._skip = 0  # lines without a time that it will repeat
        self._timed: bool | None = None  # as its first line is
        self._rest = b""
        self._in_line: _Instant | None = None  # when the line was written of which pieces were taken already
        self._continued = False  # whether there is such a line

    def since(self) -> str:
        """From when on the next connection has to read, RFC 3339, in whole seconds; "" from the beginning."""
        if self._latest is None:
            return ""
        return (self._latest[0] - LOG_WINDOW).strftime("%Y-%m-%dT%H:%M:%SZ")

    def connected(self) -> None:
        """A connection begins, which repeats lines that were seen. A line that the last one has cut off is dropped."""
        self._again = Counter(self._seen)
        self._catching_up = bool(self._seen)
        self._skip = self._untimed
        self._timed = None
        self._rest, self._continued = b"", False

    def feed(self, data: bytes) -> list[str]:
        """The new lines that are complete now, without their ends and their times. `data` is a piece of any size."""
        *complete, rest = (self._rest + data).split(b"\n")
        found: list[str] = []
        for line in complete:
            found += self._take(self._shortened(line, found))
            self._continued = False
        self._rest = self._shortened(rest, found)
        return found

    def end(self) -> list[str]:
        """The last line, if it has no end. For a log that has ended."""
        rest, self._rest = self._rest, b""
        return self._take(rest) if rest else []

    def _shortened(self, line: bytes, found: list[str]) -> bytes:
        """Take pieces of a line that is too long; always the same ones, however it arrives. Returns what is left."""
        while len(line) > MAX_LINE:
            found += self._take(line[:MAX_LINE])
            self._continued, line = True, line[MAX_LINE:]
        return line

    def _take(self, line: bytes) -> list[str]:
        text = line.decode(errors="replace")
        if not self._continued:
            match = _STAMP.match(text)
            instant = _instant(match[0]) if match is not None and self._timed is not False else None
            if self._timed is None:
                self._timed = instant is not None and match is not None and len(match[2] or "") == _NANOSECONDS
            if instant is not None and match is not None and self._timed:
                self._in_line, text = instant, text[match.end() :]
                stamp = match[0].rstrip()
            else:
                self._in_line, stamp = None, ""
        else:
            stamp = self.position
        if not self._is_new(self._in_line, stamp, text):
            return []
        return [f"{stamp} {text}" if self._keep_times and stamp and not self._continued else text]

    def _is_new(self, instant: _Instant | None, stamp: str, text: str) -> bool:
        if instant is None:
            self._skip -= 1
            self._untimed += self._skip < 0
            return self._skip < 0
        if self._before is not None and instant <= self._before:
            return False
        entry = (instant, text)
        if self._again[entry] > 0:
            self._again[entry] -= 1
            self._catching_up = False
            return False
        # A later line ends the catching up, too: the file may have been rotated, and those that were seen with it.
        later = self._latest is None or instant > self._latest
        if self._catching_up and not later:
            return False  # older than what was wanted, or no longer remembered: lines are repeated in their order
        self._catching_up = False
        if later:
            self._latest, self.position = instant, stamp
        self._seen.append(entry)
        oldest = instant[0] - 2 * LOG_WINDOW
        while len(self._seen) > _MAX_REMEMBERED or self._seen[0][0][0] < oldest:
            self._seen.popleft()
        return True


def _instant(stamp: str) -> _Instant | None:
    """The time that a stamp says; None if it says none, or one that only looks like a time, as anybody may write it."""
    match = _STAMP.match(stamp)
    if match is None:
        return None
    try:
        seconds = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00")).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if seconds.year < _EARLIEST_YEAR:
        return None
    return seconds, int((match[2] or ".0")[1:].ljust(9, "0"))
