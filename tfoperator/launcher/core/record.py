"""The working directory of a launch.

It contains a record, which the launcher writes before each action. So a launch can be resumed. Before the launcher
creates an object, the record contains the object's future name. After the launcher has created it, the record contains
its UID. So the next launcher finds the object, even if the first launcher was killed between these two steps. The
launcher records a permanent failure, too: another launch would fail again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from tfoperator.base.files import hold_lock
from tfoperator.base.private_files import check_own_place, make_folders
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.launcher.core.component import Artifact
from tfoperator.launcher.core.errors import AlreadyFailed, LaunchInProgress, WorkDirectoryError
from tfoperator.launcher.core.metadata import Execution
from tfoperator.launcher.core.output_document import Output

LaunchState = Literal["planned", "created", "retryable", "succeeded", "failed", "cancelled"]
"""planned: a container may exist. created: a container exists or existed. retryable: this attempt has ended. All other
states: the launch has ended.
"""

_RECORD = "launch.json"
_LOG_POSITION = "log-position"
_LOCK = "lock"


class RecordKeeper(msgspec.Struct, frozen=True):
    """Keeps a launch's record in another place than its working directory.

    Only one thread may use it. Both methods raise LauncherError. `read` returns the record, None if there is none.
    `write` replaces the record, or removes it if the argument is None. After `write` has returned, the record survives
    the loss of this machine. `write` raises OwnershipLost if another launcher has taken over the launch. `logs` is the
    folder with the positions of logs. These positions may be lost.
    """

    read: Callable[[], bytes | None]
    write: Callable[[bytes | None], object]
    logs: Path


class Decided(msgspec.Struct, frozen=True):
    """The driver's decisions, which are the executor's input."""

    inputs: dict[str, tuple[Artifact, ...]] = {}
    outputs: dict[str, tuple[Artifact, ...]] = {}
    exec_properties: dict[str, Any] = {}


class LaunchRecord(msgspec.Struct, frozen=True):
    """The progress of a launch. `run` is the random part of the names of its objects. `attempt` counts from 1.

    `kind` is the launcher's name, and `place` is where the container runs on its platform. With both, any process that
    has the record of a dead launcher can stop the container (`launcher.platforms.stopping`).
    """

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
    output: Output | None = None
    decided: Decided = Decided()
    kind: str = ""
    place: dict[str, str] = {}
    version: int = 1


def recorded_execution(record: LaunchRecord, ended: datetime | None, state: str = "", message: str = "") -> Execution:
    """Return the execution that must be published for a launch, using only the launch's record.

    `state` and `message` replace the values in the record. A success has the outputs and parameters that the driver
    decided, unless output.json overrides them.
    """
    if not state:
        state, message = record.state, record.message
    decided, outputs = record.decided, {}
    exec_properties = decided.exec_properties
    if state == "succeeded":
        output = record.output or Output()
        outputs = dict(decided.outputs)
        for name, artifacts in output.artifacts().items():
            place = next((one.uri for one in decided.outputs.get(name, ())), "")
            outputs[name] = tuple([Artifact(one.uri or place, one.properties) for one in artifacts])
        exec_properties = {**exec_properties, **output.exec_properties}
    return Execution(
        record.execution_id,
        record.component,
        state,
        message,
        record.cache_key,
        record.image_id,
        decided.inputs,
        outputs,
        exec_properties,
        ended=ended,
    )


def new_run() -> str:
    """Return a random part for names: 8 hexadecimal digits, so the names of two launches of the same
    component differ.
    """
    return secrets.token_hex(4)


class WorkDirectory:
    """A launch's directory. Use it as a context manager: it then excludes all other launchers. Not thread-safe.

    With a keeper, the keeper has the record and the positions of logs, and the directory contains only data that may be
    lost.
    """

    def __init__(self, path: Path, keeper: RecordKeeper | None = None) -> None:
        self.path = path.absolute()
        self._keeper = keeper
        self._logs = self.path if keeper is None else keeper.logs
        self._lock: BinaryIO | None = None

    def __enter__(self) -> WorkDirectory:
        try:
            check_own_place(self.path)
            # Parameters may be secrets. Containers reach `tmp` through mounts, not by this path.
            make_folders(self.path)
            self._lock = hold_lock(self.path / _LOCK)
        except OSError as error:
            raise WorkDirectoryError(f"working directory {self.path}: {error.strerror}") from error
        if self._lock is None:
            raise LaunchInProgress(
                f"another launcher uses {self.path}: wait until it has ended, or choose another working directory"
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def tmp(self) -> Path:
        """The default value of `LaunchContext.tmp_path`."""
        return self.path / "tmp"

    def load(self) -> LaunchRecord | None:
        """Return the record, None if there is none. Raises WorkDirectoryError if the record can't be read."""
        try:
            data = self._keeper.read() if self._keeper is not None else (self.path / _RECORD).read_bytes()
            return None if data is None else msgspec.json.decode(data, type=LaunchRecord)
        except FileNotFoundError:
            return None
        except (OSError, *UNDECODABLE) as error:
            raise WorkDirectoryError(
                f"{self.path / _RECORD} can't be read: {error}. Remove the directory to start again; a container of "
                "the earlier launch may still exist"
            ) from error

    def save(self, record: LaunchRecord) -> None:
        """Write the record. After this method has returned, the record survives a crash of the machine.

        Raises WorkDirectoryError, and the errors of the keeper.
        """
        if self._keeper is not None:
            self._keeper.write(msgspec.json.encode(record))
            return
        try:
            self._write(_RECORD, msgspec.json.encode(record))
        except OSError as error:
            raise WorkDirectoryError(f"{self.path / _RECORD} can't be written: {error.strerror}") from error

    def forget(self) -> None:
        """Remove the record and its files. The next launch then starts from the beginning."""
        if self._keeper is not None:
            self._keeper.write(None)
        (self.path / _RECORD).unlink(missing_ok=True)
        self.forget_logs()

    def to_go_on(self, component: str, fingerprint: str, *, resume: bool) -> LaunchRecord | None:
        """Return the record of the launch to continue; None for a new launch.

        Raises WorkDirectoryError if the record belongs to another launch. Raises it too if `resume` is not set and the
        launch's container may still run. Raises AlreadyFailed if the launch has failed permanently.
        """
        record = self.load()
        if record is None:
            return None
        if not resume:
            if record.name and record.state in ("planned", "created"):
                raise WorkDirectoryError(
                    f"{self.path} has the record of an unfinished launch of {record.component}, and {record.name} "
                    "may still run: continue it (--resume), or choose another working directory (--work-dir)"
                )
            self.forget()
            return None
        if (record.component, record.fingerprint) != (component, fingerprint):
            raise WorkDirectoryError(
                f"working directory {self.path} belongs to another launch (of {record.component}, with another "
                "container, config, input or parameter): choose another working directory, or remove this one to "
                "start again"
            )
        if record.state == "failed":
            raise AlreadyFailed(
                f"component {record.component} has failed for good, so it is not launched again: {record.message}. "
                f"To launch it nevertheless, choose another working directory or remove {self.path}"
            )
        if record.state == "cancelled":
            return msgspec.structs.replace(record, run=new_run(), attempt=0, name="", uid="", state="retryable")
        return record

    def forget_logs(self) -> None:
        """Remove the positions of logs, because a new attempt has new logs."""
        for path in self._logs.glob(f"{_LOG_POSITION}*"):
            path.unlink(missing_ok=True)

    def log_position(self, name: str = "") -> str:
        """Return the time stamp of the last line of a log that was forwarded; "" if no line was forwarded."""
        try:
            return (self._logs / f"{_LOG_POSITION}{name}").read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def keep_log_position(self, position: str, name: str = "") -> None:
        """Store it. The thread that reads the log may call it. If a position is lost, only some lines are repeated."""
        with contextlib.suppress(OSError):
            make_folders(self._logs)
            (self._logs / f"{_LOG_POSITION}{name}").write_text(position, "utf-8")

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
