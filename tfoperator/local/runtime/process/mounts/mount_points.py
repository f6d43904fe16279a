"""Empty folders and files of this machine on which volumes are mounted in the mount namespaces of containers.

A container sees its volume at the mount point. All other processes see an empty folder or file there. If a mount point
is removed, the kernel detaches its mounts in all namespaces. So only the last run that needs a mount point removes it.
A run knows that it is the last if it gets an exclusive lock. The sticky bit marks a mount point. By this bit, a run
recognizes a mount point that an earlier run has made. Each mount point is recorded in a file. After a crash, the
guardian or the next run removes the mount point by this record.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import logging
import os
import threading
from pathlib import Path

from tfoperator.local.runtime.process.cleanup.guardian_main import POINT_MODE, point_record, remove_point

logger = logging.getLogger(__name__)

_MAX_TRIES = 1000
"""The number of tries to get the lock while another run removes the mount point, or checks whether it may remove it.
All tries together take some 50 ms.
"""


class MountPoints:
    """The mount points that pods of this run need. Thread-safe.

    `records` is the folder in which the mount points are recorded. The folder may be created later.
    """

    def __init__(self, records: Path) -> None:
        self._records = records
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # guards _users and _held; under it are only calls that do not block
        self._users: dict[str, set[str]] = {}  # UIDs of pods, by path; in order of creation
        self._held: dict[str, tuple[int, Path | None]] = {}  # the locked descriptor, and the record

    def make(self, pod: str, path: str, *, folder: bool) -> None:
        """Make an empty folder or, if `folder` is false, an empty file at `path`, unless it exists. Raises OSError.

        Missing folders above it become mount points, too. `pod` is the UID of the pod that needs the mount points.
        """
        with self._lock:
            missing = [path]
            while not os.path.lexists(above := os.path.dirname(missing[-1])) or above in self._users:
                missing.append(above)
            for point in reversed(missing):
                if point not in self._users:
                    self._held[point] = self._hold(point, folder=folder or point != path)
                self._users.setdefault(point, set()).add(pod)

    def release(self, pod: str) -> None:
        """Remove the mount points that only this pod needed, unless another run needs them."""
        with self._lock:
            for path in reversed(list(self._users)):  # the entries of a folder before the folder
                self._users[path].discard(pod)
                if not self._users[path]:
                    self._remove(path)

    def close(self) -> None:
        """Remove all mount points, unless another run needs them."""
        with self._lock:
            for path in reversed(list(self._users)):
                self._remove(path)

    def _hold(self, path: str, *, folder: bool) -> tuple[int, Path | None]:
        """Make the mount point if it doesn't exist, and take a shared lock on it.

        Return the descriptor of the lock, and the path of the mount point's record, or None if the record can't be
        written.
        """
        record = self._record(path)  # before the mount point is made, because of crashes in between
        for _ in range(_MAX_TRIES):
            try:
                if folder:
                    os.mkdir(path, 0o700)
                else:
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700))
                os.chmod(path, POINT_MODE)  # whatever the umask
            except FileExistsError:
                pass
            descriptor = _shared(path)
            if descriptor is not None:
                return descriptor, record
            os.sched_yield()
        raise FileNotFoundError(errno.ENOENT, "another run removes this mount point again and again", path)

    def _record(self, path: str) -> Path | None:
        try:
            return Path(point_record(str(self._records), next(self._numbers), path))
        except OSError as error:
            logger.warning(
                "can't record the mount point %s, so it stays on this machine after a crash: %s", path, error.strerror
            )
            return None

    def _remove(self, path: str) -> None:
        del self._users[path]
        descriptor, record = self._held.pop(path)
        os.close(descriptor)
        remove_point(path)
        if record is not None:
            record.unlink(missing_ok=True)


def _shared(path: str) -> int | None:
    """Return a descriptor of the mount point with a shared lock.

    Return None if another run is removing the mount point.
    """
    descriptor = None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return descriptor
    except (FileNotFoundError, BlockingIOError):
        pass
    if descriptor is not None:
        os.close(descriptor)
    return None
