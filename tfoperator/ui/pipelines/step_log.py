"""Follows a step's log file: the last lines first, then new ones."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import msgspec

from tfoperator.ui.problems import CannotRead

_PIECE_BYTES = 256 << 10
"""Bytes per read, and per message."""
_MAX_LINE = 64 << 10
"""Bytes after which a line is cut in two: a file without line ends must not fill the memory."""


class LogPiece(msgspec.Struct, frozen=True):
    """Some lines. `afresh`: the file was replaced, so earlier lines must not be shown any more."""

    lines: tuple[str, ...] = ()
    afresh: bool = False


class StepLogTail:
    """The lines of a log that another process writes. `read` from one thread at a time, `close` from any."""

    def __init__(self, path: Path, *, tail_lines: int) -> None:
        self._path = path
        self._tail_lines = tail_lines
        self._lock = threading.Lock()  # guards the fields below, during a read of a local file's piece
        self._closed = False
        self._handle: int | None = None
        self._position = 0
        self._rest = b""
        self._begun = False

    def close(self) -> None:
        """Stop reading. Idempotent."""
        with self._lock:
            self._closed = True
            self._close_file()

    def read(self) -> LogPiece:
        """Return the lines since the last call, at most a piece; nothing at the end, or while there is no file.

        A last line without an end is returned when one call has added nothing to it. Raises CannotRead.
        """
        with self._lock:
            return LogPiece() if self._closed else self._read()

    def _read(self) -> LogPiece:
        try:
            afresh = self._open()
            if self._handle is None:
                return LogPiece(afresh=afresh)
            data = os.pread(self._handle, _PIECE_BYTES, self._position)
        except OSError as error:
            raise CannotRead(f"the log can't be read: {error.strerror}") from error
        self._position += len(data)
        pieces = (self._rest + data).split(b"\n")
        self._rest = pieces.pop() if data else b""
        while len(self._rest) > _MAX_LINE:
            pieces.append(self._rest[:_MAX_LINE])
            self._rest = self._rest[_MAX_LINE:]
        if pieces == [b""] and not data:
            pieces = []
        return LogPiece(tuple(piece.decode(errors="replace") for piece in pieces), afresh)

    def _open(self) -> bool:
        """Open the present file; return whether it was replaced. Links, devices and pipes are not opened."""
        try:
            now = os.lstat(self._path)
        except FileNotFoundError:
            replaced = self._handle is not None
            self._close_file()
            return replaced
        if self._handle is not None:
            opened = os.fstat(self._handle)
            if (opened.st_dev, opened.st_ino) == (now.st_dev, now.st_ino) and now.st_size >= self._position:
                return False
            self._close_file()
        handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(handle)
            raise CannotRead("the log is no file")
        afresh, self._begun = self._begun, True
        self._handle, self._rest = handle, b""
        self._position = _start_of_last_lines(handle, found.st_size, self._tail_lines)
        return afresh

    def _close_file(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _start_of_last_lines(handle: int, size: int, lines: int) -> int:
    """Return where the last lines of a file begin."""
    at, wanted = size, lines
    while at > 0:
        start = max(0, at - _PIECE_BYTES)
        data = os.pread(handle, at - start, start)
        if at == size and data.endswith(b"\n"):
            wanted += 1  # the end of the last line begins no new line
        there = data.count(b"\n")
        if there >= wanted:
            for _ in range(wanted):
                at = data.rindex(b"\n", 0, at - start) + start
            return at + 1
        wanted -= there
        at = start
    return 0
