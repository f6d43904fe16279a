"""Files that other programs use: opened safely whatever is at their path, read from their last lines, and locked."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import stat
import time
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

_CHUNK = 64 * 1024
_LOCK_PAUSE = 0.002
"""Mean seconds between two tries to take a lock."""


def local_path(uri: str) -> Path | None:
    """Return the path of a URI on this machine; None for a URI elsewhere (`gs://bucket/x`)."""
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None if parts.scheme and "://" in uri else Path(uri)


def open_regular(path: Path) -> BinaryIO:
    """Open a file without following a link, and without waiting. Raises OSError, also if it is not a regular file."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def file_mark(path: str | Path, *, follow_symlinks: bool = True) -> tuple[int, int, int] | None:
    """Return size, time and inode, by which versions of a file differ; None if the file can't be examined."""
    try:
        found = os.stat(path, follow_symlinks=follow_symlinks)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def take_lock(handle: int, *, shared: bool = False) -> bool:
    """Take the kernel's lock of an open file; return whether this process has it, False if another has it. Never waits.

    A shared lock does not exclude other shared locks. It is released when the file is closed or its process ends.
    Raises OSError if the file can't be locked at all, as on a network's file system that has no locks.
    """
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def hold_lock(path: Path, seconds: float = 0.0) -> BinaryIO | None:
    """Return a file, made if necessary, that holds its lock until it is closed; None if another holds it for `seconds`.

    All waiting processes try equally often, so that each gets a turn. Raises OSError, as `take_lock` does.
    """
    end = time.monotonic() + seconds
    with ExitStack() as opened:
        stream = opened.enter_context(open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "rb"))
        while not take_lock(stream.fileno()):
            if time.monotonic() >= end:
                return None
            time.sleep(random.uniform(0.5, 1.5) * _LOCK_PAUSE)
        opened.pop_all()
        return stream


def is_locked(path: Path) -> bool:
    """Return whether a program holds the exclusive lock of a file; False if there is no such file. Writes nothing.

    For the time of two system calls it holds a shared lock itself.
    """
    try:
        with open_regular(path) as stream:
            return not take_lock(stream.fileno(), shared=True)
    except OSError:
        return False


def tail_offset(stream: BinaryIO, lines: int) -> int:
    """Return where the last `lines` lines begin. Reads backwards: a log may be far larger than its end."""
    end = position = stream.seek(0, os.SEEK_END)
    if lines <= 0:
        return end
    wanted = lines
    while position > 0:
        size = min(_CHUNK, position)
        position -= size
        stream.seek(position)
        block = stream.read(size)
        if position + size == end and block.endswith(b"\n"):
            block = block[:-1]  # the end of the last line starts no other line
        found = block.count(b"\n")
        if found < wanted:
            wanted -= found
            continue
        index = len(block)
        for _ in range(wanted):
            index = block.rindex(b"\n", 0, index)
        return position + index + 1
    return 0
