"""The symbolic links that replace the mounts of pods that run as processes.

Pods that mount the same volume at the same path share a link: it is kept until the last of them has ended. Each link is
recorded in a file, so that after a crash the guardian or the next run removes it: it would lead to an old volume.
"""

from __future__ import annotations

import itertools
import logging
import threading
from pathlib import Path

from tfoperator.local.runtime.process.guardian_main import link_record

logger = logging.getLogger(__name__)


_Link = tuple[Path, Path]
"""The link's path, and its target."""


class MountLinks:
    """The links made here, and the pods that use them. Thread-safe.

    `records` is the folder of their records; it may be created later.
    """

    def __init__(self, records: Path) -> None:
        self._records = records
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # guards _users and _files, and the links themselves
        self._users: dict[_Link, set[str]] = {}  # UIDs of pods; in order of creation
        self._files: dict[_Link, Path] = {}  # records

    def make(self, pod: str, path: Path, target: Path) -> str:
        """Make a link at `path` for this pod, by its UID; return why that isn't possible, else "".

        An existing link with the same target is used. It is removed by its creator only.
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
        """Remove the links that only this pod used. If one can't be removed, that is logged."""
        with self._lock:
            # The newest first: one may lie in the volume that is an older one's target.
            for key in reversed(list(self._users)):
                users = self._users[key]
                users.discard(pod)
                if not users:
                    self._remove(key)

    def close(self) -> None:
        """Remove all links."""
        with self._lock:
            for key in reversed(list(self._users)):
                self._remove(key)

    def _make(self, key: _Link) -> None:
        path, target = key
        if key not in self._files:  # recorded before it is made, because of crashes in between
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
