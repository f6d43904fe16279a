"""Follows a step's log file: the last lines first, then new ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tfoperator.base.files import open_regular, tail_offset
from tfoperator.ui.problems import CannotRead

_PIECE_BYTES = 256 << 10
"""Bytes per read, and per message."""
_MAX_LINE = 64 << 10
"""Bytes after which a line is cut in two: a file without line ends must not fill the memory."""


class StepLogTail:
    """The lines of a log that another process writes. `read` from one thread at a time; nothing is open in between.

    `find` returns the path at each call, and raises OSError.
    """

    def __init__(self, find: Callable[[], Path], *, tail_lines: int) -> None:
        self._find = find
        self._tail_lines = tail_lines
        self._file: tuple[int, int] | None = None  # device and inode of what it has begun to read
        self._position = 0
        self._rest = 0  # bytes of a line without an end, which were read after the position

    def read(self) -> tuple[list[str], bool]:
        """Return the lines since the last call, at most a piece; nothing at the end, or while there is no file.

        And whether the file was replaced, so that earlier lines must not be shown any more. A last line without an end
        is returned when one call has added nothing to it. Links, devices and pipes are not opened. Raises CannotRead.
        """
        before = self._file
        try:
            with open_regular(self._find()) as stream:
                found = os.fstat(stream.fileno())
                self._file = (found.st_dev, found.st_ino)
                begun = self._file == before and found.st_size >= self._position
                if not begun:
                    self._position, self._rest = tail_offset(stream, self._tail_lines), 0
                stream.seek(self._position)
                data = stream.read(_PIECE_BYTES)
        except FileNotFoundError:
            self._file = None
            return [], before is not None
        except OSError as error:
            raise CannotRead(f"the log can't be read: {error.strerror}") from error
        whole = data.rfind(b"\n") + 1
        if not whole and (len(data) >= _MAX_LINE or len(data) == self._rest):
            whole = min(len(data), _MAX_LINE)
        self._position += whole
        self._rest = len(data) - whole
        pieces = data[:whole].removesuffix(b"\n").split(b"\n") if whole else []
        return [piece.decode(errors="replace") for piece in pieces], before is not None and not begun
