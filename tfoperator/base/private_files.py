"""Files and folders that only their owner can read, whatever the umask; links are never followed for a write.

The files of a run may contain Secrets: in logs, volumes, and the variables of a pod template.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OWN = ".tfoperator"
"""The name of the folder, in the current folder, in which commands keep their data by default."""


def make_folders(path: Path) -> None:
    """Create a folder and its missing parents, all of them private. An existing folder keeps its mode.

    Raises OSError if a folder can't be created. `Path.mkdir` would create the parents with the permissions that the
    umask allows, and then everyone might be able to write to them.
    """
    for folder in (*reversed(path.parents), path):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if folder == path and not folder.is_dir():
                raise
        except OSError:
            if not folder.is_dir():  # an existing folder on a read-only file system, or of another user
                raise


def private_folder(path: Path) -> None:
    """Create a private folder; if the folder exists, make it private. Raises OSError, also if the path is a link."""
    make_folders(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def others_may_replace(found: os.stat_result, user: int) -> bool:
    """Return whether users other than `user` and root may replace the files in a folder whose status is `found`."""
    open_to_all = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
    return found.st_uid not in (user, 0) or (stat.S_ISDIR(found.st_mode) and bool(open_to_all))


def check_own(folder: Path) -> None:
    """Raise PermissionError if another user may replace the files in a folder, or may replace the link to it."""
    if any(others_may_replace(found, os.geteuid()) for found in (os.lstat(folder), os.stat(folder))):
        raise PermissionError(errno.EPERM, "another user can replace the files in it", str(folder))


def check_own_place(path: Path) -> None:
    """Raise PermissionError if a path is in a folder `.tfoperator` and another user may replace the data there.

    `.tfoperator` has the data of jobs and pipelines that ran on this machine. It names programs to run and files to use
    as results. In a folder that several users share, another user may have created `.tfoperator` first. The user has
    chosen all other paths, so they are not checked.
    """
    for folder in (*reversed(path.parents), path):
        if OWN in folder.parts and (folder.exists() or folder.is_symlink()):
            check_own(folder)


def private_opener(path: str, flags: int) -> int:
    """Open a file, as the `opener` of `open()`: a new file is private, and a link is an error."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; a reader sees the whole old content or the whole new content."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with open(fresh, "xb", opener=private_opener) as stream:
        stream.write(content)
    fresh.replace(path)


@contextmanager
def temporary_file(data: bytes) -> Iterator[str]:
    """Yield the path of a private file with these bytes, and remove the file afterwards. Raises OSError.

    Some libraries, such as OpenSSL, read keys only from files. On Linux, the file is in memory, because a pod may have
    no writable directory.
    """
    if sys.platform == "linux":
        with open(os.memfd_create("tfoperator", os.MFD_CLOEXEC), "wb", buffering=0) as stream:
            stream.write(data)
            yield f"/proc/self/fd/{stream.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(prefix="tfoperator-", buffering=0) as stream:  # with mode 0600
            stream.write(data)
            yield stream.name
