"""Follows a step's log file: the last lines first, then new ones."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO

import msgspec

from tfoperator.base.files import open_regular, tail_offset
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
        self._stream: BinaryIO | None = None
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
            if self._stream is None:
                return LogPiece(afresh=afresh)
            data = self._stream.read(_PIECE_BYTES)
        except OSError as error:
            raise CannotRead(f"the log can't be read: {error.strerror}") from error
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
            replaced = self._stream is not None
            self._close_file()
            return replaced
        if self._stream is not None:
            if os.path.samestat(os.fstat(self._stream.fileno()), now) and now.st_size >= self._stream.tell():
                return False
            self._close_file()
        self._stream, self._rest = open_regular(self._path), b""
        self._stream.seek(tail_offset(self._stream, self._tail_lines))
        afresh, self._begun = self._begun, True
        return afresh

    def _close_file(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
