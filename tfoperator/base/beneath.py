"""Reads files in a folder with untrusted content: a name can't lead out of the folder, and links are not followed.

A name may come from another program, such as git, or from a file of the folder. Each component of a name is opened
separately, relative to its parent. So a link that another program creates in the meantime is not followed either.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import BinaryIO

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LeadsOut(Exception):
    """Raised if a name is empty, absolute, contains `..`, or leads through a link. The message begins with the name."""


def components(name: str) -> tuple[str, ...]:
    """Return the components of a relative name. Raises LeadsOut if the name is absolute, is empty, or contains `..`."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise LeadsOut(f"{name!r} is not the name of a file in this folder")
    return path.parts


def status_beneath(root: int, name: str) -> tuple[os.stat_result, str]:
    """Return the status of a file in an open folder, and the target of the file if it is a link ("" otherwise).

    Raises LeadsOut if a parent is a link, and OSError if the file does not exist.
    """
    *parents, last = components(name)
    with _folder(root, parents, name) as folder:
        status = os.stat(last, dir_fd=folder, follow_symlinks=False)
        return status, os.readlink(last, dir_fd=folder) if stat.S_ISLNK(status.st_mode) else ""


def open_beneath(root: int, name: str) -> BinaryIO:
    """Open a regular file in the folder `root`; the call never waits, for example for the writer of a FIFO.

    Raises LeadsOut if the file or a parent is a link, and OSError if the file can't be opened.
    """
    *parents, last = components(name)
    with _folder(root, parents, name) as folder:
        try:
            handle = os.open(last, _FILE_FLAGS, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise LeadsOut(f"{name!r} is a link") from None
            raise OSError(error.errno, error.strerror, name) from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", name)
    return os.fdopen(handle, "rb")


@contextmanager
def opened_folder(path: str | os.PathLike[str]) -> Iterator[int]:
    """Open a folder and yield its descriptor; the path to the folder itself may contain links.

    Raises OSError if the folder can't be opened.
    """
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield root
    finally:
        os.close(root)


@contextmanager
def _folder(root: int, parents: Sequence[str], name: str) -> Iterator[int]:
    current = os.dup(root)
    try:
        for number, parent in enumerate(parents):
            below = _step(current, parent, "/".join(parents[: number + 1]), name)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def _step(folder: int, part: str, place: str, name: str) -> int:
    try:
        return os.open(part, _FOLDER_FLAGS, dir_fd=folder)
    except OSError as error:
        is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(folder, part)
        if is_link:
            raise LeadsOut(f"{name!r} contains the symbolic link {place!r}") from None
        raise OSError(error.errno, error.strerror, name) from None


def _is_link(folder: int, part: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
