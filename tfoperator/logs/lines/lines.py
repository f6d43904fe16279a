"""A container's log as lines.

Each line comes exactly once, even if connections break and files are rotated. The module does no I/O. Kubelets and
Docker engines can put the time of writing in front of each line, and can begin a log at a given second. After a
connection broke, the log is read again from shortly before the last line. Known lines are left out by their time *and*
their text. So the result is right even if lines have equal times or come out of order (standard output and standard
error race). A server without times, like the embedded server, sends the whole log again. In this case, as many lines
are skipped as were read before.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from datetime import UTC, datetime, timedelta

LOG_WINDOW = timedelta(seconds=2)
"""After a broken connection, the log is read again from this long before the last line, because servers use whole
seconds, and lines may be out of order.
"""

MAX_LINE = 1 << 20
"""A line with more bytes than this is emitted in pieces, because a program may never write a line end."""

_MAX_SEEN_LINES = 100_000
_EARLIEST_YEAR = 1970  # times before containers existed are wrong, and subtracting from the earliest times overflows
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)(?: |$)")
_NANOSECONDS = len(".000000000")
"""Servers that send times always write nine digits for the fraction (kubelets since kubernetes/kubernetes#91207,
Docker). In a log without times, a program may write time stamps itself. Such a time stamp rarely has nine digits.
"""

_Instant = tuple[datetime, int]
"""A time that can be compared: whole seconds in UTC, and nanoseconds, because a datetime has no nanoseconds."""


class ResumableLines:
    """Finds the new lines of a log that is read again. Use it in only one thread.

    `position` is the time stamp of the last line that an earlier process read ("" if there was no earlier process):
    lines up to this time are skipped. If the log has no times, and the first connection has requested only the last
    lines (`tail_lines`), older lines count as new after the connection broke.
    """

    def __init__(self, position: str = "", *, keep_times: bool = False) -> None:
        """With `keep_times`, each line begins with its time if the server sends a time."""
        self._keep_times = keep_times
        self.position = position
        """The time stamp of the latest line."""
        self._before = _instant(position)
        self._latest = self._before
        self._recent: deque[tuple[_Instant, str]] = deque()  # lines of the last seconds, oldest first
        self._untimed = 0  # lines without a time that were seen
        # Of the current connection:
        self._again: Counter[tuple[_Instant, str]] = Counter()  # lines that it will repeat
        self._catching_up = False  # whether it still has to repeat its first known line
        self._skip = 0  # lines without a time that it will repeat
        self._timed: bool | None = None  # whether lines have times: its first line decides
        self._rest = b""
        self._in_line: _Instant | None = None  # the time of a line that was emitted in part
        self._continued = False  # whether there is such a line

    def since(self) -> str:
        """Return the time from which the next connection must read (RFC 3339, whole seconds); "" for the beginning."""
        if self._latest is None:
            return ""
        return (self._latest[0] - LOG_WINDOW).strftime("%Y-%m-%dT%H:%M:%SZ")

    def connected(self) -> None:
        """Note that the caller has opened a new connection, which will repeat known lines.

        If the last connection ended within a line, the incomplete line is dropped.
        """
        self._again = Counter(self._recent)
        self._catching_up = bool(self._recent)
        self._skip = self._untimed
        self._timed = None
        self._rest, self._continued = b"", False

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that are now complete, without their line ends.

        The times are removed, too, unless `keep_times` was set. `data` is a piece of the log of any size.
        """
        *complete, rest = (self._rest + data).split(b"\n")
        lines: list[str] = []
        for line in complete:
            lines += self._take(self._shortened(line, lines))
            self._continued = False
        self._rest = self._shortened(rest, lines)
        return lines

    def end(self) -> list[str]:
        """Return the last line if it has no line end. Call it only for a log that has ended."""
        rest, self._rest = self._rest, b""
        return self._take(rest) if rest else []

    def _shortened(self, line: bytes, lines: list[str]) -> bytes:
        """Cut a line that is too long into pieces, and append the pieces to `lines`.

        The line is always cut at the same positions, also if it arrives in several calls of `feed`. Return the part of
        the line that remains.
        """
        while len(line) > MAX_LINE:
            lines += self._take(line[:MAX_LINE])
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
        # A later line ends the catching up, too: the file with the seen lines may have been rotated away.
        later = self._latest is None or instant > self._latest
        if self._catching_up and not later:
            return False  # a known line that is not in `_recent` any more: known lines come before new lines
        self._catching_up = False
        if later:
            self._latest, self.position = instant, stamp
        self._recent.append(entry)
        oldest = instant[0] - 2 * LOG_WINDOW
        while len(self._recent) > _MAX_SEEN_LINES or self._recent[0][0][0] < oldest:
            self._recent.popleft()
        return True


def _instant(stamp: str) -> _Instant | None:
    """Return the time in a time stamp. Return None if the text is not a valid time stamp."""
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
