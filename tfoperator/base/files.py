"""Safely opens files that other programs also use, whatever is at their path; reads last lines, and locks files."""

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
"""The mean number of seconds between two attempts to take a lock."""


def local_path(uri: str) -> Path | None:
    """Return the path of a URI on this machine; None for a URI elsewhere (`gs://bucket/x`), and for a malformed URL."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # for example `http://[x`
        return None if "://" in uri else Path(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None if parts.scheme and "://" in uri else Path(uri)


def open_regular(path: Path) -> BinaryIO:
    """Open a file without following a link, and without waiting.

    Raises OSError, also if the path is not a regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def file_mark(path: str | Path, *, follow_symlinks: bool = True) -> tuple[int, int, int] | None:
    """Return size, modification time and inode, which change when the file changes; None if they can't be read."""
    try:
        found = os.stat(path, follow_symlinks=follow_symlinks)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def take_lock(handle: int, *, shared: bool = False) -> bool:
    """Take the kernel's lock of an open file; return True if this process has it, False if another process has it.

    Never waits. A shared lock does not exclude other shared locks. The lock is released when the file is closed or its
    process ends. Raises OSError if the file can't be locked at all, as on a network's file system that has no locks.
    """
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def hold_lock(path: Path, seconds: float = 0.0) -> BinaryIO | None:
    """Return a file (created if necessary) that is locked until it is closed.

    Return None if another process holds the lock for `seconds`. All waiting processes try equally often, so each of
    them gets the lock at some time. Raises OSError, as `take_lock` does.
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

    During two system calls, this function itself holds a shared lock: a program that tries to take the exclusive lock
    at this moment does not get it.
    """
    try:
        with open_regular(path) as stream:
            return not take_lock(stream.fileno(), shared=True)
    except OSError:
        return False


def tail_offset(stream: BinaryIO, lines: int) -> int:
    """Return the offset, in bytes, at which the last `lines` lines of a file begin.

    The function reads backwards, because a log may be far larger than its last lines.
    """
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
            block = block[:-1]  # the last newline only ends the last line
        found = block.count(b"\n")
        if found < wanted:
            wanted -= found
            continue
        index = len(block)
        for _ in range(wanted):
            index = block.rindex(b"\n", 0, index)
        return position + index + 1
    return 0
