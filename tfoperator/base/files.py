"""Files that other programs write: opened for reading whatever they have put there, and read from their last lines."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_CHUNK = 64 * 1024


def open_regular(path: Path) -> BinaryIO:
    """Open a file without following a link, and without waiting. Raises OSError, also for what is no regular file."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return os.fdopen(handle, "rb")


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
