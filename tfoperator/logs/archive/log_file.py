"""Writes one log from the API server to a file: streamed, with a bound on its bytes and on the time.

If a log is too long, its end is kept: there, a program reports why it failed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec


class SavedLog(msgspec.Struct, frozen=True):
    """`size` bytes are in the file; the `dropped` bytes before them are not.

    Not `complete`: the time-out passed or, if it is `full`, there was no room for the rest.
    """

    size: int
    dropped: int
    complete: bool
    full: bool = False


Room = Callable[[int], bool]
"""Returns whether this many more bytes may be written; a negative number reports a removal."""


def save_log(
    pieces: Iterable[bytes],
    path: Path,
    *,
    limit: int,
    in_time: Callable[[], bool],
    room: Room = lambda _: True,
) -> SavedLog:
    """Write a log to `path`; if it is longer than `limit` bytes, at least its last `limit / 2` bytes.

    `in_time` is called between two pieces, `room` before each; without room, more is left out at the beginning.
    Raises OSError, and the errors of `pieces`; the file then has the pieces before.
    """
    halves = _Halves(path, room)
    complete, full = True, False
    try:
        for piece in pieces:
            if not halves.write(piece):
                complete, full = False, True
                break
            if halves.written >= max(limit // 2, 1):
                halves.turn()
            if not in_time():
                complete = False
                break
    finally:
        halves.close()
    return SavedLog(size_of(path), halves.dropped, complete, full)


class _Halves:
    """The last two parts of a log, in two files until it is closed: a third part replaces the older part."""

    def __init__(self, path: Path, room: Room) -> None:
        self.dropped = 0
        self._path = path
        self._older = path.with_name(f"{path.name}.older")
        self._room = room
        self._stream = path.open("wb")

    @property
    def written(self) -> int:
        return self._stream.tell()

    def write(self, piece: bytes) -> bool:
        """Write a piece; return False if there is no room for it, even without all earlier pieces."""
        for _ in range(2):
            if self._room(len(piece)):
                break
            self.turn()
        else:
            if not self._room(len(piece)):
                self.dropped += len(piece)
                return False
        self._stream.write(piece)
        return True

    def turn(self) -> None:
        """Begin another part."""
        self._stream.close()
        self._drop_older()
        self._path.replace(self._older)
        self._stream = self._path.open("wb")

    def close(self) -> None:
        """Join the parts."""
        self._stream.close()
        if not self._older.exists():
            return
        twice = size_of(self._path)  # while they are joined
        if self._room(twice):
            with self._older.open("ab") as whole, self._path.open("rb") as end:
                shutil.copyfileobj(end, whole)
            self._older.replace(self._path)
            self._room(-twice)
        elif twice:
            self._drop_older()
        else:
            self._older.replace(self._path)

    def _drop_older(self) -> None:
        size = size_of(self._older)
        self._older.unlink(missing_ok=True)
        self.dropped += size
        self._room(-size)


def link(source: Path, path: Path) -> None:
    """Link a file to a second path; copy it where the file system has no links. Raises OSError."""
    try:
        os.link(source, path)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(source, path)


def size_of(path: Path) -> int:
    """Return the bytes of a file, 0 if there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
