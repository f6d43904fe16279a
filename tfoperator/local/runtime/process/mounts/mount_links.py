"""Symbolic links at mount paths. The links replace mounts of volumes if the machine permits no mount namespaces.

All processes of the machine see a link. So a path can belong to only one volume at a time. Pods that mount the same
folder at the same path share a link. The link is kept until the last of these pods has ended. A pod that mounts another
folder at the same path has to wait. Each link is recorded in a file. After a crash, the guardian or the next run reads
this file and removes the link, because it leads to an old volume.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tfoperator.local.runtime.process.cleanup.guardian_main import link_record
from tfoperator.local.runtime.process.cleanup.records import OWNER_FILE, RECORDS

logger = logging.getLogger(__name__)


_Link = tuple[Path, Path]
"""The path of a link, and the link's target."""


class LinkUser(msgspec.Struct, frozen=True):
    """A volume that needs a link, and the pod of the volume. `pod` is the pod's UID, and `key` is the pod's namespace
    and name.
    """

    pod: str
    key: str
    volume: str


class PathTaken(Exception):
    """Another volume has this mount path. The message names the path, and the pod or the user that has the path."""


class MountLinks:
    """The links that this run has made, and the pods that use them. Thread-safe.

    `records` is the folder in which the links are recorded. The folder may be created later.
    """

    def __init__(self, records: Path) -> None:
        self._records = records
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # guards _users and _files, and the links themselves
        self._users: dict[_Link, set[LinkUser]] = {}  # in order of creation
        self._files: dict[_Link, Path] = {}  # records

    def make(self, user: LinkUser, path: Path, target: Path) -> str:
        """Make a link from `path` to `target`, the folder of a volume. Return "", or why the link can't be made.

        Raises PathTaken if a link of another pod, another run or another user has this path.

        If there is already a link to `target` at `path`, and it belongs to root or to the user of this process, this
        link is used. Only the run that made a link removes it.
        """
        key = (path.absolute(), target)
        with self._lock:
            self._replace_old(user, key)
            try:
                there = _leads_to(*key)
                if not there:
                    self._make(key)
            except OSError as error:
                if not isinstance(error, FileExistsError):
                    return str(error.strerror)
                self._refuse_taken(key)
                return "it exists already"
            if not there or key in self._users:
                self._users.setdefault(key, set()).add(user)
        return ""

    def _replace_old(self, user: LinkUser, key: _Link) -> None:
        """Remove this volume's link at the path if the link leads to the volume's old content: a ConfigMap may have
        changed between two starts of a container.
        """
        for other in [link for link in self._users if link[0] == key[0] and link != key]:
            if self._users[other] == {user}:
                self._remove(other)

    def _refuse_taken(self, key: _Link) -> None:
        """Raise PathTaken if there is a link of another pod, another run or another user at the path of `key`."""
        path = key[0]
        if not path.is_symlink():
            return
        users = [user for link, link_users in self._users.items() if link[0] == path for user in link_users]
        if users:
            raise PathTaken(f"{path} is used by volume {users[0].volume!r} of pod {users[0].key}")
        owner = path.lstat().st_uid
        if owner not in (0, os.geteuid()):
            raise PathTaken(f"{path} is a symbolic link of another user (ID {owner})")
        run = _run_of(path.readlink().parents)
        if run is not None:
            raise PathTaken(f"{path} is used by a volume of another run ({run})")

    def release(self, pod: str) -> None:
        """Remove the links that only this pod used. If a link can't be removed, the failure is logged."""
        with self._lock:
            # The newest first: a newer link may lie in the volume that is the target of an older link.
            for key in reversed(list(self._users)):
                self._users[key] = {user for user in self._users[key] if user.pod != pod}
                if not self._users[key]:
                    self._remove(key)

    def close(self) -> None:
        """Remove all links."""
        with self._lock:
            for key in reversed(list(self._users)):
                self._remove(key)

    def _make(self, key: _Link) -> None:
        path, target = key
        if key not in self._files:  # recorded before the link is made, because of crashes in between
            try:
                file = link_record(str(self._records), next(self._numbers), str(path), str(target))
                self._files[key] = Path(file)
            except OSError as error:
                logger.warning(
                    "can't record the link %s, so it stays on this machine after a crash: %s", path, error.strerror
                )
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
    """Return whether `path` is a link to `target`, and belongs to root or to the user of this process."""
    return path.is_symlink() and path.lstat().st_uid in (0, os.geteuid()) and path.readlink() == target


def _run_of(folders: Iterable[Path]) -> Path | None:
    """Return the first of these folders that is the run directory of a run."""
    return next((folder for folder in folders if (folder / RECORDS / OWNER_FILE).is_file()), None)
