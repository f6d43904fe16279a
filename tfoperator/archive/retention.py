"""Keeps an archive below a size: the pods that were archived first go first.

A bound on bytes, not on age: the disk is what must not run full, whatever the cluster does.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from tfoperator.archive.layout import RECORD

__all__ = ["UNFINISHED", "Retention"]

logger = logging.getLogger(__name__)

UNFINISHED = ".unfinished-"
"""How the names of folders begin that a pod's logs are being written to; then comes whose they are."""
_ROOM = 0.9  # down to this part of the bound: else each pod from then on would cost a look at every file


class Retention:
    """Thread-safe. What is there is counted once, at the first call, and from then on by what is added."""

    def __init__(self, root: Path, max_bytes: int) -> None:
        self._root = root
        self._max = max_bytes
        self._mine = f"{UNFINISHED}{secrets.token_hex(4)}-"
        self._lock = threading.Lock()  # guards _used, and the folders above those of pods
        self._used: int | None = None

    def scratch(self, target: Path) -> Path:
        """A new folder to fill, beside the place that it is for. Raises OSError."""
        # Under the lock: what makes room also removes folders that have become empty.
        with self._lock:
            target.parent.mkdir(parents=True, exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix=self._mine, dir=target.parent))
        folder.chmod(0o750)  # mkdtemp's 0700 would shut out clients in the volume's group
        return folder

    def admit(self, folder: Path, target: Path) -> None:
        """Move a finished folder to its place, and make room if there is too much now. Raises OSError."""
        size = _folder_size(folder)
        with self._lock:
            if self._used is None:
                self._used = self._take_stock()
            if target.exists():  # archived before, but not deleted then
                self._used -= _folder_size(target)
                shutil.rmtree(target)
            folder.rename(target)
            self._used += size
            if self._used > self._max:
                self._make_room(target)

    def _take_stock(self) -> int:
        """Count what is there, and remove what a crash has left half done."""
        for half in self._root.glob(f"*/*/{UNFINISHED}*"):
            if not half.name.startswith(self._mine):
                shutil.rmtree(half, ignore_errors=True)
        return sum(size for _, size, _ in self._pods())

    def _make_room(self, newest: Path) -> None:
        pods = sorted(self._pods())
        used = sum(size for _, size, _ in pods)
        removed = 0
        for _, size, folder in pods:
            if used <= self._max * _ROOM:
                break
            if folder == newest:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            for parent in (folder.parent, folder.parent.parent):
                try:
                    parent.rmdir()
                except OSError:  # not empty
                    break
            used -= size
            removed += 1
        self._used = used
        logger.info("the log archive was full: removed the logs of the %d oldest pods", removed)

    def _pods(self) -> Iterator[tuple[float, int, Path]]:
        """(time, bytes, folder) of every pod."""
        for record in self._root.glob(f"*/*/*/{RECORD}"):
            if record.parent.name.startswith(UNFINISHED):
                continue
            try:
                yield record.stat().st_mtime, _folder_size(record.parent), record.parent
            except OSError as error:
                logger.warning("%s in the log archive can't be read: %s", record, error)


def _folder_size(folder: Path) -> int:
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
