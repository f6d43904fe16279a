"""The place of an archive: a directory, or a URL below which the objects are.

The archive's folders are named by paths relative to the place.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path, PurePath

from tfoperator.logs.archive.layout import RECORD, ArchivedPod, is_file_name, read_record
from tfoperator.logs.archive.log_file import link

logger = logging.getLogger(__name__)

UNFINISHED = ".unfinished-"
"""The prefix of a folder's name while logs are written to the folder. A random text follows the prefix. Each process
uses its own text, so it recognizes its own folders.
"""
REPLACED = f"{UNFINISHED}old-"
"""The prefix of the name of a pod's old folder while a new folder replaces it. The name of the pod's folder follows the
prefix, then a dash and a random text without a dash.
"""


class Place:
    """A directory that contains an archive. The subclass `Bucket` is for a URL.

    A new folder is filled in the same parent folder as its final place, and then renamed. So readers never see a
    partial folder. Thread-safe, as long as only one thread at a time writes the folder of a pod. Every method may raise
    OSError.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    @property
    def root(self) -> Path:
        """The directory in which folders are filled before `replace`.

        For a directory as archive, this is the archive itself. For a URL, this is a temporary directory of this
        process.
        """
        return self._root

    def check(self) -> None:
        """Raise OSError if this process can't write to the archive, for example because it lacks the permission."""
        self.root.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".writable-", dir=self.root)
        os.close(handle)
        Path(name).unlink()

    def children(self, under: PurePath) -> list[str]:
        """Return the names of the folders in a folder, without unfinished folders.

        The list is empty if the folder does not exist.
        """
        os.stat(self.root)
        try:
            return [name for name in os.listdir(self.root / under) if not name.startswith(UNFINISHED)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def record(self, target: PurePath) -> ArchivedPod | None:
        """Return the record in the folder of a pod. Return None if there is no readable record."""
        return read_record(self.root / target)

    def read(self, name: str, *, last: int = 0, tail_lines: int | None = None) -> bytes:
        """Return a file's content, or only its `last` bytes or its last `tail_lines` lines.

        Raises FileNotFoundError.
        """
        with (self.root / name).open("rb") as stream:
            if last:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - last))
            return stream.read() if tail_lines is None else b"".join(deque(stream, maxlen=tail_lines))

    def take(self, target: PurePath, name: str, path: Path) -> tuple[str, int]:
        """Take the file `name` from a pod's folder into the pod's new folder, as `path`.

        Return the file's name for the new record, and its size in bytes. Return an empty name and 0 if there is no such
        file: another thread may have removed it to make room.
        """
        try:
            return self._take(target, name, path) if is_file_name(name) else ("", 0)
        except FileNotFoundError:
            return "", 0

    def _take(self, target: PurePath, name: str, path: Path) -> tuple[str, int]:
        """Do the work of `take` for a valid file name. Raises FileNotFoundError."""
        link(self.root / target / name, path)
        return path.name, path.stat().st_size

    def store(self, target: PurePath, path: Path, when: datetime) -> str:
        """Put a new file of the pod's folder at its final place. Return its name in the record.

        In a directory, the file stays in the new folder, because `replace` renames the whole folder. `when` is the time
        at which the file's run ended.
        """
        del target, when
        path.chmod(0o640)  # clients in the volume's group read it
        return path.name

    def replace(self, target: PurePath, folder: Path, when: datetime, old: ArchivedPod | None) -> int:
        """Put a filled folder, with its record, in place of the pod's folder at `target`.

        `when` is the end of the pod, from which `found` gets its times. `old` is the record at `target` when the folder
        was made: only `Bucket` uses it, to detect another writer. Return the growth of the archive in bytes.

        If the process is killed before the new folder has its place, `tidy` puts the old folder back.
        """
        del old
        os.utime(folder / RECORD, (when.timestamp(), when.timestamp()))
        size, path = _size(folder), self.root / target
        if not path.exists():
            folder.rename(path)
            return size
        size -= _size(path)
        before = Path(tempfile.mkdtemp(prefix=f"{REPLACED}{path.name}-", dir=path.parent))
        path.rename(before)
        try:
            folder.rename(path)
        except OSError:
            before.rename(path)
            raise
        shutil.rmtree(before, ignore_errors=True)
        return size

    def tidy(self, mine: str) -> None:
        """Remove unfinished folders that a crash left behind, except the folders whose names begin with `mine`.

        If a crash in `replace` has left a pod without a folder, the pod gets its old folder back.
        """
        for half in self.root.glob(f"*/*/{UNFINISHED}*"):
            if half.name.startswith(mine):
                continue
            path = _path_before(half)
            if path is not None and not path.exists() and (half / RECORD).exists():
                half.rename(path)
            else:
                shutil.rmtree(half, ignore_errors=True)

    def found(self) -> Iterator[tuple[float, int, PurePath]]:
        """Yield (time, bytes, folder) for each pod in the archive. The time is the end of the pod, as a POSIX time."""
        for record in self.root.glob(f"*/*/*/{RECORD}"):
            if record.parent.name.startswith(UNFINISHED):
                continue
            try:
                yield record.stat().st_mtime, _size(record.parent), record.parent.relative_to(self.root)
            except OSError as error:
                logger.warning("%s in the log archive can't be read: %s", record, error)

    def remove(self, target: PurePath) -> None:
        """Remove the folder of a pod."""
        folder = self.root / target
        shutil.rmtree(folder, ignore_errors=True)
        for parent in (folder.parent, folder.parent.parent):
            try:
                parent.rmdir()
            except OSError:  # not empty
                break

    def close(self) -> None:
        """Remove the files that only this process needs. Idempotent."""


def _path_before(half: Path) -> Path | None:
    """Return the path that an old folder had before `replace` renamed it. Return None for another folder."""
    name = half.name.removeprefix(REPLACED).rpartition("-")[0]
    return half.with_name(name) if name and half.name.startswith(REPLACED) else None


def _size(folder: Path) -> int:
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
