"""Reads one log for a client: from its end, from a time on, with or without times, and on while it is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from tfoperator.local.node.logs.line_times import LineTimes
from tfoperator.local.runtime import tail_offset

_CHUNK = 64 * 1024
_LONGEST_LINE = 64 * 1024
"""Bytes after which an unfinished line is handed on with its time, as a line of its own."""


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
