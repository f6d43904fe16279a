"""The place of an archive: a directory, or below the URL of objects. Its folders are named by paths relative to it."""

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
"""The prefix of a folder while logs are being written to it; the owner's token follows."""


class Place:
    """A directory. A folder is filled beside its final place, and renamed: readers never see a partial folder.

    Thread-safe, for one writer of a pod's folder at a time. Every method raises OSError.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def __str__(self) -> str:
        return str(self._root)

    @property
    def root(self) -> Path:
        """The directory where folders are filled before `replace`: the archive itself, or one of this process."""
        return self._root

    def check(self) -> None:
        """Raise OSError if nothing can be written to the archive, and that will not change by itself."""
        self.root.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".writable-", dir=self.root)
        os.close(handle)
        Path(name).unlink()

    def children(self, under: PurePath) -> list[str]:
        """Return the names of the folders in a folder; none if it does not exist."""
        os.stat(self.root)
        try:
            return [name for name in os.listdir(self.root / under) if not name.startswith(UNFINISHED)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def record(self, target: PurePath) -> ArchivedPod | None:
        """Return the record in the folder of a pod; None if there is no readable record."""
        return read_record(self.root / target)

    def read(self, name: str, *, last: int = 0, tail_lines: int | None = None) -> bytes:
        """Return a file's content, its `last` bytes or lines. Raises FileNotFoundError."""
        with (self.root / name).open("rb") as stream:
            if last:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - last))
            return stream.read() if tail_lines is None else b"".join(deque(stream, maxlen=tail_lines))

    def take(self, target: PurePath, name: str, path: Path) -> tuple[str, int]:
        """Take a file of a pod's folder into the next folder, as `path`; return its name there, and its bytes.

        Returns an empty name and 0 if there is no such file: it may have been removed meanwhile, to make room.
        """
        try:
            return self._take(target, name, path) if is_file_name(name) else ("", 0)
        except FileNotFoundError:
            return "", 0

    def _take(self, target: PurePath, name: str, path: Path) -> tuple[str, int]:
        """Do so for a file's name. Raises FileNotFoundError."""
        link(self.root / target / name, path)
        return path.name, path.stat().st_size

    def store(self, target: PurePath, path: Path, when: datetime) -> str:
        """Put a file of a run that ended `when` where it stays; return its name in the record."""
        del target, when
        path.chmod(0o640)  # clients in the volume's group read it
        return path.name

    def replace(self, target: PurePath, folder: Path, when: datetime, old: ArchivedPod | None) -> int:
        """Put a filled folder, with its record, in place of the pod's `old` folder; return the growth in bytes."""
        del old
        os.utime(folder / RECORD, (when.timestamp(), when.timestamp()))
        size, path = _size(folder), self.root / target
        if not path.exists():
            folder.rename(path)
            return size
        size -= _size(path)
        before = Path(tempfile.mkdtemp(prefix=f"{UNFINISHED}old-", dir=path.parent))
        path.rename(before)
        folder.rename(path)
        shutil.rmtree(before, ignore_errors=True)
        return size

    def found(self) -> Iterator[tuple[float, int, PurePath]]:
        """Yield (time, bytes, folder) of every pod."""
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
        """Remove what only this process needs. Idempotent."""


def _size(folder: Path) -> int:
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
