"""One log, from the API server to a file: streamed, with a bound on its bytes and on the time.

Of a log that is too long the end is kept, since that is where a program says why it has failed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

__all__ = ["LogSource", "LogText", "SavedLog", "save_log"]


class LogText(AbstractContextManager["LogText"], Iterable[bytes], Protocol):
    """The bytes of a log: `tfoperator.kube.log_stream.LogStream`."""

    def close(self) -> None:
        """End it at once; thread-safe."""
        ...


class LogSource(Protocol):
    """Who has the logs: `tfoperator.kube.client.Client`."""

    def pod_log(self, namespace: str, name: str, container: str = "", *, previous: bool = False) -> LogText:
        """The log of a container as far as it is there. Raises KubeError."""
        ...


class SavedLog(msgspec.Struct, frozen=True):
    """`size` bytes are in the file; `dropped` that came before them are not. Not `complete`: time was up."""

    size: int
    dropped: int
    complete: bool


def save_log(pieces: Iterable[bytes], path: Path, *, limit: int, in_time: Callable[[], bool]) -> SavedLog:
    """Write a log to `path`, of one that is longer than `limit` bytes the last half of that at least.

    `in_time` is asked between two pieces. Raises OSError, and whatever `pieces` raises; the file then has what came
    before.
    """
    older = path.with_name(f"{path.name}.older")
    dropped = 0
    complete = True
    stream = path.open("wb")
    try:
        for piece in pieces:
            stream.write(piece)
            if stream.tell() >= max(limit // 2, 1):
                stream.close()
                dropped += _size(older)
                path.replace(older)
                stream = path.open("wb")
            if not in_time():
                complete = False
                break
    finally:
        stream.close()
        if older.exists():
            _append(older, path)
    return SavedLog(_size(path), dropped, complete)


def _append(older: Path, path: Path) -> None:
    with older.open("ab") as whole, path.open("rb") as end:
        shutil.copyfileobj(end, whole)
    older.replace(path)


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
