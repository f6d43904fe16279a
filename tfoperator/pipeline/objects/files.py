"""Objects as the files of a directory, which several machines may mount."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tfoperator.pipeline.objects.object_store import ObjectConflict, ObjectStoreError, Stored

_PARTIAL = ".partial-"

MARKER = "tfoperator-store"
"""The marker file of a store. A mount point without its mount does not have it."""

_OLD_CONTENT = ("metadata", "runs")
"""The content of stores from before the marker."""


class FileObjects:
    """See `ObjectStore`. A version is the SHA-256 of the content; the times are the file system's.

    A write goes to a file beside it, and is renamed. One under a condition holds the kernel's lock of the folder
    meanwhile, which other machines respect on NFS 4, CephFS and their like.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def __str__(self) -> str:
        return str(self._folder)

    def begin(self) -> None:
        """Mark it as a store, if it is not marked yet. Raises ObjectStoreError if no store may be created here."""
        if (self._folder / MARKER).exists():
            return
        old = self.is_begun()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / MARKER).write_text("Here are the records of pipelines. Leave this file where it is.\n")
        except OSError as error:
            if not old:  # a reader without write permission can use the store, too
                raise ObjectStoreError(f"{error.filename or self._folder}: {error.strerror}") from error

    def is_begun(self) -> bool:
        """Return whether there is a store; False if one can be created here.

        A folder that is empty, with nothing mounted on it, may be a mount point without its mount: data
        written there would be hidden by the mount, and until then all runs seem to be gone. Raises ObjectStoreError.
        """
        if any((self._folder / name).exists() for name in (MARKER, *_OLD_CONTENT)):
            return True
        nearest = next(one for one in (self._folder, *self._folder.parents) if one.exists())
        if _is_empty(nearest) and not nearest.is_mount():
            folder = shlex.quote(str(self._folder))
            raise ObjectStoreError(
                f"{self._folder}: no records are here, and {nearest} is empty. If they are on a volume or another "
                f"machine, mount that. For new ones: mkdir -p {folder} && touch {folder}/{MARKER}"
            )
        return False

    def get(self, key: str) -> Stored | None:
        """See `ObjectStore`."""
        with self._in_words():
            try:
                handle = os.open(self._folder / key, os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                return None
            with os.fdopen(handle, "rb") as stream:
                modified = os.fstat(handle).st_mtime
                data = stream.read()
            age = max(0.0, self._now((self._folder / key).parent) - modified)
        return Stored(data, _version(data), age, datetime.fromtimestamp(modified, UTC))

    def put(self, key: str, data: bytes, expected: str | None = None) -> str:
        """See `ObjectStore`."""
        path = self._folder / key
        with self._in_words():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if expected is None:
                _replace(path, data)
                return _version(data)
            with _locked(path.parent):
                try:
                    there = _version(path.read_bytes())
                except FileNotFoundError:
                    there = ""
                if there != expected:
                    raise ObjectConflict(f"{path} was written by somebody else")
                _replace(path, data)
        return _version(data)

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """See `ObjectStore`."""
        found = []
        with self._in_words():
            top = self._folder / prefix.rpartition("/")[0]
            for folder, _, names in os.walk(top, onerror=_raise_unless_absent):
                found += [str(Path(folder, name).relative_to(self._folder)) for name in names if name[0] != "."]
        yield from sorted(key for key in found if key.startswith(prefix) and key > after)

    def delete(self, key: str) -> None:
        """See `ObjectStore`."""
        with self._in_words():
            (self._folder / key).unlink(missing_ok=True)

    def _now(self, folder: Path) -> float:
        """Return the file system's time: a file server has its own clock.

        Without write permission return this machine's.
        """
        try:
            handle, name = tempfile.mkstemp(prefix=_PARTIAL, dir=folder)
        except OSError:
            return datetime.now(UTC).timestamp()
        try:
            os.write(handle, b".")
            return os.fstat(handle).st_mtime
        finally:
            os.close(handle)
            os.unlink(name)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ObjectStoreError(f"{error.filename or self._folder}: {error.strerror}") from error


def _is_empty(folder: Path) -> bool:
    try:
        with os.scandir(folder) as found:
            return next(found, None) is None
    except OSError:
        return False


def _raise_unless_absent(error: OSError) -> None:
    """Raise unless the file is absent: an unreadable one must not look absent."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{_PARTIAL}{secrets.token_hex(8)}")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(handle)
        partial.rename(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
