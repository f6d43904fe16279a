"""Writes a log from the API server to a file. The module streams the log, and limits its bytes and the time.

If a log is too long, the file keeps the end of the log, because a program reports there why it failed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec


class SavedLog(msgspec.Struct, frozen=True):
    """`size` bytes of the log are in the file. The `dropped` bytes before them are not in the file.

    `complete` is false if the time limit had passed, or if the archive had no room for the rest of the log. In the
    second case, `full` is true.
    """

    size: int
    dropped: int
    complete: bool
    full: bool = False


Room = Callable[[int], bool]
"""A function that gets a number of bytes, and returns whether this many more bytes may be written to the archive. A
negative number reports that bytes were removed.
"""


def save_log(
    pieces: Iterable[bytes],
    path: Path,
    *,
    limit: int,
    in_time: Callable[[], bool],
    room: Room = lambda _: True,
) -> SavedLog:
    """Write a log to `path`.

    If the log has more than `limit` bytes, the file keeps at least its last `limit / 2` bytes. `in_time()` is called
    after each piece. If it returns False, the rest of the log is not written. `room` is called before each piece, and
    returns whether the archive has room for it. If not, bytes at the beginning of the log are dropped. Raises OSError,
    and all errors of the iterator `pieces`. The file then contains the pieces that came before the error.
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
    """The file of a log, while pieces are added to its end.

    Until `close`, the last two parts of the log are in two files. When a third part begins (`turn`), the oldest part is
    dropped. So the end of the log is always kept.
    """

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
        """Write a piece. Return False if there is no room for it, even after all earlier pieces were dropped."""
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
        """Begin a new part."""
        self._stream.close()
        self._drop_older()
        self._path.replace(self._older)
        self._stream = self._path.open("wb")

    def close(self) -> None:
        """Join the two parts in one file. If there is no room for this, keep only the newer part."""
        self._stream.close()
        if not self._older.exists():
            return
        twice = size_of(self._path)  # bytes that exist twice while the two parts are joined
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
    """Link a file to a second path, or copy the file if the file system does not support links. Raises OSError."""
    try:
        os.link(source, path)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(source, path)


def size_of(path: Path) -> int:
    """Return the number of bytes in a file; 0 if the file does not exist."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
