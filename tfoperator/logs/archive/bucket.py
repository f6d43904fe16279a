"""An archive in an object store, below a URL. Its logs outlive pods and nodes, and it needs no volume.

The folder of a pod is a prefix of the objects' keys. Each log has a name of its own, with the time at which its run
ended. The record names all logs, and is written last. So readers see either the old state of the pod or the new state.
If a writer is killed, logs may remain that no record names. Such logs belong to the pod's folder. They are removed when
the folder is written again, or together with the folder.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path, PurePath, PurePosixPath

from tfoperator.base.files import take_lock
from tfoperator.logs.archive.layout import RECORD, ArchivedPod, decode_record, file_names
from tfoperator.logs.archive.place import Place
from tfoperator.object_store import ObjectChanged, Objects

logger = logging.getLogger(__name__)

_TIME = re.compile(r"\.(\d{1,12})-[0-9a-f]{8}\.\w+$")
_MAX_RECORD_BYTES = 4 << 20
_TAIL_BYTES = 1 << 20
"""The number of bytes that are read first if a reader requests only the last lines."""
_SCRATCH = "tfoperator-log-archive-"


class Bucket(Place):
    """An archive in an object store. Its methods do the same as the methods of `Place`."""

    def __init__(self, url: str) -> None:
        self._objects = Objects(url)
        self._lock = threading.Lock()  # guards the making of the directory below
        self._scratch: tuple[Path, int] | None = None

    def __str__(self) -> str:
        return self._objects.url

    @property
    def root(self) -> Path:
        """Return a temporary directory, in which folders are filled. It is locked while this process runs."""
        with self._lock:
            if self._scratch is None:
                self._scratch = _new_scratch()
            return self._scratch[0]

    def close(self) -> None:
        """Remove the temporary directory. Idempotent."""
        with self._lock:
            if self._scratch is not None:
                shutil.rmtree(self._scratch[0], ignore_errors=True)
                os.close(self._scratch[1])
                self._scratch = None

    def check(self) -> None:
        """Log a warning if nothing can be written to the object store.

        Unlike `Place.check`, the method raises no error, because the operator has other work to do, and the store may
        answer later.
        """
        if error := self._objects.check_writable():
            logger.warning("the log archive does not answer; logs will be kept when it answers again: %s", error)

    def children(self, under: PurePath) -> list[str]:
        """Return the names of the folders in a folder: see `Place`."""
        return self._objects.folders(_key(under))

    def record(self, target: PurePath) -> ArchivedPod | None:
        """Return the record in the folder of a pod: see `Place`."""
        stored = self._objects.get(_key(target / RECORD), limit=_MAX_RECORD_BYTES)
        return decode_record(stored[0], f"{self}/{_key(target)}") if stored is not None else None

    def read(self, name: str, *, last: int = 0, tail_lines: int | None = None) -> bytes:
        """Return a file's content, or only its end: see `Place`."""
        some = last or (_TAIL_BYTES if tail_lines is not None else 0)
        while True:
            stored = self._objects.get(name, last=some)
            if stored is None:
                raise FileNotFoundError(f"{self}/{name}")
            data, info = stored
            lines = data.splitlines(keepends=True) if tail_lines is not None else []
            if tail_lines is None or len(lines) > tail_lines or len(data) >= info.size:
                return data if tail_lines is None else b"".join(lines[len(lines) - min(tail_lines, len(lines)) :])
            some = 0

    def _take(self, target: PurePath, name: str, path: Path) -> tuple[str, int]:
        """Return the file's name and size. The file stays at its place in the bucket."""
        del path
        info = self._objects.find(_key(target / name))
        if info is None:
            raise FileNotFoundError(name)
        return name, info.size

    def store(self, target: PurePath, path: Path, when: datetime) -> str:
        """Upload a file to its final place, and remove it here; return its name in the record: see `Place`."""
        name = f"{path.stem}.{max(0, int(when.timestamp()))}-{secrets.token_hex(4)}{path.suffix}"
        self._objects.put(_key(target / name), path)
        path.unlink()
        return name

    def replace(self, target: PurePath, folder: Path, when: datetime, old: ArchivedPod | None) -> int:
        """Write the new record of a pod, and remove the files that this record does not name: see `Place`.

        Raises ObjectChanged if another process has written the record since this process read it as `old`.
        """
        del when  # the names of the log files contain this time
        data = (folder / RECORD).read_bytes()
        new, before = file_names(decode_record(data)), file_names(old)
        sizes = {PurePosixPath(entry.key).name: entry.size for entry in self._objects.all(_key(target))}
        present = self._objects.get(_key(target / RECORD), limit=_MAX_RECORD_BYTES)
        present_record = decode_record(present[0], f"{self}/{_key(target)}") if present is not None else None
        if present_record is not None and present_record != old:
            raise ObjectChanged(f"another process has written {self}/{_key(target)}", passing=True)
        self._objects.put(_key(target / RECORD), data, present[1] if present is not None else "create")
        # If another process has written more logs meanwhile, its record is refused, so its logs are not needed.
        self._objects.delete([_key(target / name) for name in sizes.keys() - new - {RECORD}])
        grown = len(data) - sizes.get(RECORD, 0)
        return (
            grown + sum(sizes.get(name, 0) for name in new - before) - sum(sizes.get(name, 0) for name in before - new)
        )

    def found(self) -> Iterator[tuple[float, int, PurePath]]:
        """Yield (time, bytes, folder) for each pod in the archive: see `Place`."""
        pods: dict[PurePath, tuple[float, int]] = {}
        for entry in self._objects.all():
            path = PurePosixPath(entry.key)
            if len(path.parts) != 4:  # not a file in the folder of a pod
                continue
            named = _TIME.search(path.name)
            time, size = pods.get(path.parent, (0.0, 0))
            pods[path.parent] = max(time, float(named[1]) if named is not None else 0.0), size + entry.size
        for folder, (time, size) in pods.items():
            yield time, size, folder

    def remove(self, target: PurePath) -> None:
        """Remove the folder of a pod."""
        self._objects.delete([entry.key for entry in self._objects.all(_key(target))])


def _key(path: PurePath) -> str:
    return path.as_posix().removeprefix(".")


def _new_scratch() -> tuple[Path, int]:
    """Return a new temporary directory, and the file descriptor that holds its lock.

    Also remove such directories of processes that were killed: these directories have no lock.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        try:
            handle = os.open(old, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if os.fstat(handle).st_uid == os.geteuid() and take_lock(handle):
                shutil.rmtree(old, ignore_errors=True)
        finally:
            os.close(handle)
    while True:
        made = Path(tempfile.mkdtemp(prefix=_SCRATCH))
        handle = os.open(made, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if made.exists():  # another process may have removed the directory before it was locked
            return made, handle
        os.close(handle)
