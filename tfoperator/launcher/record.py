"""The working directory of a launch: a record that is written before the deed, so that a killed launcher can go on.

Before anything is created, the record says under which name it will be; afterwards, which UID it got. Whoever
comes later finds what was made, even if the launcher died in between. A permanent failure is kept, too: launching
again would only fail again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from pathlib import Path
from typing import Any, Literal

import msgspec

from tfoperator.kube.errors import UNDECODABLE
from tfoperator.launcher.errors import LaunchInProgress, WorkDirectoryError

__all__ = ["LaunchRecord", "LaunchState", "WorkDirectory", "new_run"]

LaunchState = Literal["planned", "created", "retryable", "succeeded", "failed", "cancelled"]
"""planned: may exist; created: exists, or did; retryable: this attempt is over; the others: all is over."""

_RECORD = "launch.json"
_LOG_POSITION = "log-position"
_LOCK = "lock"


class LaunchRecord(msgspec.Struct, frozen=True):
    """Where a launch stands. `run` is a random piece of the names of what it makes; `attempt` counts from 1."""

    component: str
    fingerprint: str
    execution_id: int
    run: str
    attempt: int = 1
    name: str = ""
    uid: str = ""
    state: LaunchState = "planned"
    message: str = ""
    image_id: str = ""
    cache_key: str = ""
    output: dict[str, Any] | None = None
    version: int = 1


def new_run() -> str:
    """A random piece of a name: 8 hexadecimal digits, so that two launches of one component don't meet."""
    return secrets.token_hex(4)


class WorkDirectory:
    """A launch's directory; use as a context manager, which keeps all other launchers out. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None

    def __enter__(self) -> WorkDirectory:
        try:
            # Parameters may be secrets. What is in `tmp` is reached by containers through mounts, not by this path.
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WorkDirectoryError(f"working directory {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.__exit__()
            raise LaunchInProgress(
                f"another launcher is at work in {self.path}: wait for it, or choose another working directory"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def tmp(self) -> Path:
        """Where `tmp_path` is, unless somebody says otherwise."""
        return self.path / "tmp"

    def load(self) -> LaunchRecord | None:
        """The record, None if there is none. Raises WorkDirectoryError if it can't be read."""
        try:
            return msgspec.json.decode((self.path / _RECORD).read_bytes(), type=LaunchRecord)
        except FileNotFoundError:
            return None
        except (OSError, *UNDECODABLE) as error:
            raise WorkDirectoryError(
                f"{self.path / _RECORD} can't be read: {error}. Remove the directory to begin anew; what the "
                "launch had created may still be there"
            ) from error

    def save(self, record: LaunchRecord) -> None:
        """Write the record; once this returns, it outlives the machine. Raises WorkDirectoryError."""
        try:
            self._write(_RECORD, msgspec.json.encode(record))
        except OSError as error:
            raise WorkDirectoryError(f"{self.path / _RECORD} can't be written: {error.strerror}") from error

    def forget(self) -> None:
        """Remove the record and what belongs to it: the next launch begins anew."""
        (self.path / _RECORD).unlink(missing_ok=True)
        self.forget_logs()

    def forget_logs(self) -> None:
        """A new attempt begins, whose logs have not been told."""
        for path in self.path.glob(f"{_LOG_POSITION}*"):
            path.unlink(missing_ok=True)

    def log_position(self, name: str = "") -> str:
        """The time stamp of the last line that was told of a log; "" if there was none."""
        try:
            return (self.path / f"{_LOG_POSITION}{name}").read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def keep_log_position(self, position: str, name: str = "") -> None:
        """Remember it. May be called by the thread that reads the log; a lost one only repeats some lines."""
        with contextlib.suppress(OSError):
            (self.path / f"{_LOG_POSITION}{name}").write_text(position, "utf-8")

    def _write(self, name: str, data: bytes) -> None:
        partial = self.path / f"{name}.partial"
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(handle)
        partial.rename(self.path / name)
        directory = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(directory)  # the renaming, too
        finally:
            os.close(directory)
