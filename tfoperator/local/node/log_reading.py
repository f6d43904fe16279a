"""Reads one log for a client: from its end, from a time on, with or without times, and on while it is written.

The files have no times in them, so their growth is watched instead.
"""

from __future__ import annotations

import os
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tfoperator.local.runtime import tail_offset

_CHUNK = 64 * 1024
_LONGEST_LINE = 64 * 1024
"""Bytes after which an unfinished line is handed on with its time, as a line of its own."""


_MOST = 50_000
"""Samples of one log, 16 bytes each, after which every other growth is passed over; after as many again three of four,
and so on: the longer a log grows, the rougher its times are."""


class LineTimes:
    """How large one log was, and when. Thread-safe. What has been said of a line stays so: later samples lie behind it.

    A time is that of the first sample which has seen the line, so it is late by the time between two samples at most.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows
        self._sizes = array("q")
        self._times = array("d")
        self._every = 1
        self._passed = 0

    def note(self, size: int, now: datetime, *, read: bool = False) -> None:
        """At this time the log has so many bytes. `read`: somebody reads them now, so this can't be passed over."""
        with self._lock:
            if size <= (self._sizes[-1] if self._sizes else 0):
                return
            self._passed += 1
            if self._passed < self._every and not read:
                return
            self._passed = 0
            if len(self._sizes) >= _MOST * self._every.bit_length():
                self._every *= 2
            self._sizes.append(size)
            # A clock that is set back does not make a line older than the one before.
            self._times.append(max(now.timestamp(), self._times[-1] if self._times else 0.0))

    def written(self, offset: int) -> datetime:
        """When the line that begins at this byte was written. It has to lie before the last sample."""
        with self._lock:
            index = min(bisect_right(self._sizes, offset), len(self._sizes) - 1)
            return datetime.fromtimestamp(self._times[index] if index >= 0 else 0.0, UTC)

    def offset_at(self, since: datetime) -> int:
        """How many bytes were there before this time: lines that begin behind them were written since."""
        with self._lock:
            index = bisect_left(self._times, since.timestamp())
            return self._sizes[index - 1] if index else 0


def start_of(path: Path, times: LineTimes, tail_lines: int | None, since: datetime | None) -> int:
    """Where to begin: with the last so many lines, and with no line that was written before a time."""
    start = 0 if tail_lines is None else tail_offset(path, tail_lines)
    if since is None:
        return start
    return max(start, _next_line(path, times.offset_at(since)))


def _next_line(path: Path, offset: int) -> int:
    """The first byte of a line that begins at this byte or behind it; the end of the file if there is none."""
    if offset == 0:
        return 0
    with path.open("rb") as stream:
        stream.seek(offset - 1)
        while block := stream.readline(_CHUNK):
            if block.endswith(b"\n"):
                break
        return stream.tell()


def pieces(stream: BinaryIO, note: Callable[[], int]) -> Iterator[bytes]:
    """What there is, up to where `note` sees the end."""
    end = note()
    while (left := end - stream.tell()) > 0 and (piece := stream.read(min(_CHUNK, left))):
        yield piece


class TimedLines:
    """Puts its time before each line of a log that is read from `start` on. Not thread-safe."""

    def __init__(self, times: LineTimes, start: int) -> None:
        self._times = times
        self._start = start
        self._rest = b""

    def add(self, piece: bytes) -> bytes:
        """The lines that this piece completes, with their times."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            return b"".join(map(self._timed, lines)) + self.finish()
        return b"".join(map(self._timed, lines))

    def finish(self) -> bytes:
        """The last line, which has no end; nothing if there is none."""
        rest, self._rest = self._rest, b""
        if not rest:
            return b""
        timed = self._timed(rest)
        self._start -= 1  # it had no end
        return timed

    def _timed(self, line: bytes) -> bytes:
        when = self._times.written(self._start)
        self._start += len(line) + 1
        return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond:06d}000Z ".encode() + line + b"\n"


def size_of(stream: BinaryIO) -> int:
    """How many bytes the file has."""
    return os.fstat(stream.fileno()).st_size
