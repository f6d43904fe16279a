"""The temporary directory of a home in a database. It contains the working directories of the steps' launches.

After `kill -9` of the process that made the directory, the directory stays. The working directories in it may contain
copies of Secrets, and steps that still run may use them. So the next command that ends the run deletes them.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tfoperator.base.files import hold_lock, is_locked, open_regular

RUNS = "runs"
"""The name of the folder in a home that contains a folder for each run."""

_PREFIX = "tfoperator-home-"
_OWNER = "owner"
"""The name of a file in the directory. The process that made the directory locks the file as long as it lives. The file
contains the name of the database.
"""
_LOCK_SECONDS = 0.5
"""The maximum seconds to wait for the lock, which another process holds very shortly while it looks at it."""
_MAX_NAME = 64 << 10  # bytes of a database's name that are read


@contextmanager
def scratch_directory(database: str) -> Iterator[Path]:
    """Make a temporary directory of this process for a home in `database`. Remove the directory at the end."""
    # Containers get the directory's name as a part of `tmp_path`. Other users must not be able to guess it.
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as made, ExitStack() as held:
        owner = Path(made, _OWNER)
        with suppress(OSError):  # then a later command would not remove the directory
            if (lock := hold_lock(owner, _LOCK_SECONDS)) is not None:
                held.enter_context(lock)
                owner.write_text(database)
        yield Path(made)


def remove_left(database: str, is_over: Callable[[str], bool]) -> None:
    """Remove the working directories of ended runs that killed processes of this machine have left.

    `is_over` takes the id of a run in `database`, and returns whether the run has ended: then no container uses its
    directories any more. A run with a process that still runs keeps its directories.
    """
    for owner in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OWNER}"):
        if not _is_left(owner, database):
            continue
        with suppress(OSError):  # another command removes the directory, too
            runs = owner.with_name(RUNS)
            for folder in runs.iterdir() if runs.exists() else ():
                if is_over(folder.name) and not any(map(is_locked, folder.glob("steps/*/processes/*/lock"))):
                    shutil.rmtree(folder, ignore_errors=True)
            if not runs.exists() or not any(runs.iterdir()):
                shutil.rmtree(owner.parent, ignore_errors=True)


def _is_left(owner: Path, database: str) -> bool:
    """Return whether a directory is private, belongs to the database, and was made by a process that has ended."""
    try:
        status = owner.parent.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return False
        with open_regular(owner) as stream:
            name = stream.read(_MAX_NAME)
    except OSError:
        return False
    return name == database.encode() and not is_locked(owner)
