"""The symbolic links that stand in for the mounts of pods which are processes.

Pods that mount the same volume at the same path share a link: it stays until the last of them is over.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

logger = logging.getLogger(__name__)


class MountLinks:
    """The links that were made here, and the pods that use them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _users, and the links themselves
        self._users: dict[tuple[Path, Path], set[str]] = {}  # (link, target): UIDs of pods; in the order of making

    def make(self, pod: str, path: Path, target: Path) -> str:
        """Have a link at `path` for this pod, by its UID; returns why that isn't possible, else "".

        One that is there already and leads to the same place will do. Whoever made it removes it.
        """
        key = (path.absolute(), target)
        with self._lock:
            try:
                there = _leads_to(*key)
                if not there:
                    path.symlink_to(target)
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
                    del self._users[key]
                    _remove(*key)

    def close(self) -> None:
        """Remove all of them."""
        with self._lock:
            for key in reversed(list(self._users)):
                del self._users[key]
                _remove(*key)


def _leads_to(path: Path, target: Path) -> bool:
    return path.is_symlink() and path.readlink() == target


def _remove(path: Path, target: Path) -> None:
    try:
        if _leads_to(path, target):
            path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("the link %s can't be removed: %s", path, error.strerror)
