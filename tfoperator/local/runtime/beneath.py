"""Opens paths below a directory to which untrusted programs write, and never follows links there.

A container may create a link at a path that this process, or the engine, is about to open. So each component of the
path is opened separately, relative to the component before it, and must not be a link. After that, the path is safe
until a program moves one of these components. If an engine resolves the path again, `docker.quiet_volumes` prevents
such moves.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR)
"""The errors when a link is opened with `_FOLDER_FLAGS`. The second error also occurs for a file."""


class UnsafePath(Exception):
    """A path leads out of its volume, contains a link, or can't be used.

    The message contains the path, and then the reason.
    """


def parts_beneath(relative: str) -> tuple[str, ...]:
    """Return the components of a path below a volume. Raises UnsafePath if the path is absolute or contains `..`."""
    path = PurePosixPath(relative)
    if path.is_absolute() or ".." in path.parts or "\0" in relative:
        raise UnsafePath(f"{relative!r} is outside of its volume")
    return path.parts


@contextmanager
def folder_beneath(root: Path, parts: Sequence[str], shown: str = "") -> Iterator[int]:
    """Yield a descriptor of the folder `parts` below `root`.

    Missing folders are created with the permissions of `root`. Raises UnsafePath if a component is a link or no folder,
    or can't be opened or created. The message of the exception contains `shown`, by default the path of the folder.
    """
    descriptor = _open(root, parts, shown or "/".join(parts))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_beneath(root: Path, relative: str, *, folder: bool = True) -> None:
    """Make sure that a file or folder exists at `relative` below `root`.

    If nothing exists there, create a folder, or, if `folder` is false, an empty file. Raises UnsafePath if `relative`
    leads out of `root`, contains a link, is something other than a file or a folder, or can't be created.
    """
    parts = parts_beneath(relative)
    *folders, last = parts or (".",)
    with folder_beneath(root, folders, relative) as above:
        try:
            status = os.stat(last, dir_fd=above, follow_symlinks=False)
        except FileNotFoundError:
            os.close(_open(root, parts, relative) if folder else _new_file(above, last, relative))
            return
        if stat.S_ISLNK(status.st_mode):
            raise UnsafePath(f"{relative!r} contains a symbolic link")
        if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
            raise UnsafePath(f"{relative!r} is neither a file nor a folder")


def _new_file(folder: int, name: str, shown: str) -> int:
    try:
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    except OSError as error:
        raise UnsafePath(f"{shown!r}: {error.strerror}") from None


def _open(root: Path, parts: Sequence[str], shown: str) -> int:
    try:
        current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the volume itself may be a user's link
    except OSError as error:
        raise UnsafePath(f"{shown!r}: {root}: {error.strerror}") from None
    try:
        mode = stat.S_IMODE(os.fstat(current).st_mode)
        for part in parts:
            current = _step(current, part, mode, shown)
    except BaseException:
        os.close(current)
        raise
    return current


def _step(folder: int, name: str, mode: int, shown: str) -> int:
    """Open the subfolder `name` of `folder`, close `folder`, and return the subfolder's descriptor.

    If the subfolder does not exist, create it with the permissions `mode`. Error messages contain the path `shown`.
    """
    try:
        made = not _exists(folder, name)
        if made:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=folder)
        below = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    except OSError as error:
        if error.errno in _LINK_ERRORS and _exists(folder, name, link=True):
            raise UnsafePath(f"{shown!r} contains a symbolic link") from None
        raise UnsafePath(f"{shown!r}: {name}: {error.strerror}") from None
    if made:
        os.fchmod(below, mode)  # whatever the umask: the container may run as any user
    os.close(folder)
    return below


def _exists(folder: int, name: str, *, link: bool = False) -> bool:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return False
    return not link or stat.S_ISLNK(mode)
