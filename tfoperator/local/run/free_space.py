"""Whether the disk of a run is full, which explains failures that look like a program's own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_NONE_LEFT = 256 * 1024
"""Bytes that count as none: a file system may have some left, but not enough for what was to be written."""


def full_disk(folders: Iterable[Path], *, root: bool | None = None) -> str:
    """The first of these folders on a disk without room for this user; "" if there is none, or it can't be asked.

    `root` may use what is kept back from others; by default it is as this process is.
    """
    root = os.geteuid() == 0 if root is None else root
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:
            continue
        free = (found.f_bfree if root else found.f_bavail) * found.f_frsize
        files = found.f_ffree if root else found.f_favail
        # Some file systems count no files at all: those say 0 of 0.
        if free < _NONE_LEFT or (found.f_files > 0 and files == 0):
            return str(folder) if folder != Path() else "the current directory"
    return ""
