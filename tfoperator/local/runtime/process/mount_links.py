"""The symbolic links that stand in for the mounts of pods which are processes.

Pods that mount the same volume at the same path share a link: it stays until the last of them is over. Each is recorded
in a file, so that the guardian, or the next run, removes what a crash has left: it would lead into an old volume.
"""

from __future__ import annotations

import itertools
import logging
import threading
from pathlib import Path

from tfoperator.local.runtime.process.guardian_main import link_record

logger = logging.getLogger(__name__)


_Link = tuple[Path, Path]
"""Where it is, and what it leads to."""


class MountLinks:
    """The links that were made here, and the pods that use them. Thread-safe.

    `records` is the folder of their records, which may be made later than this.
    """

    def __init__(self, records: Path) -> None:
        self._records = records
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # guards _users and _files, and the links themselves
        self._users: dict[_Link, set[str]] = {}  # UIDs of pods; in the order of making
        self._files: dict[_Link, Path] = {}  # records

    def make(self, pod: str, path: Path, target: Path) -> str:
        """Have a link at `path` for this pod, by its UID; returns why that isn't possible, else "".

        One that is there already and leads to the same place will do. Whoever made it removes it.
        """
        key = (path.absolute(), target)
        with self._lock:
            try:
                there = _leads_to(*key)
                if not there:
                    self._make(key)
            except OSError as error:
                return "it exists already" if isinstance(error, FileExistsError) else str(error.strerror)
            if not there or key in self._users:
                self._users.setdefault(key, set()).add(pod)
        return ""

    def release(self, pod: str) -> None:
        """A pod is over: remove the links that no other pod uses. What can't be removed is logged."""
        with self._lock:
            # The newest first: one may lie within the volume that an older one leads to.
            for key in reversed(list(self._users)):
                users = self._users[key]
                users.discard(pod)
                if not users:
                    self._remove(key)

    def close(self) -> None:
        """Remove all of them."""
        with self._lock:
            for key in reversed(list(self._users)):
                self._remove(key)

    def _make(self, key: _Link) -> None:
        path, target = key
        if key not in self._files:  # recorded before it is made: a crash may come between
            try:
                file = link_record(str(self._records), next(self._numbers), str(path), str(target))
                self._files[key] = Path(file)
            except OSError as error:
                logger.warning("the link %s can't be recorded, a crash would leave it: %s", path, error.strerror)
        try:
            path.symlink_to(target)
        except OSError:
            if key not in self._users:
                self._forget(key)
            raise

    def _remove(self, key: _Link) -> None:
        path = key[0]
        del self._users[key]
        try:
            if _leads_to(*key):
                path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("the link %s can't be removed: %s", path, error.strerror)
        self._forget(key)

    def _forget(self, key: _Link) -> None:
        file = self._files.pop(key, None)
        if file is not None:
            file.unlink(missing_ok=True)


def _leads_to(path: Path, target: Path) -> bool:
    return path.is_symlink() and path.readlink() == target
