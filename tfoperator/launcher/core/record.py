"""The working directory of a launch, and the launch record in it, with which another launcher can resume the launch.

The launcher writes the record before each action. Before it creates a container, pod or TFJob, the record contains the
name of this object. After the creation, the record contains its UID. So the next launcher finds the object, even if the
first launcher was killed between these two steps. The record also contains a permanent failure, so that the next
launcher does not repeat the launch.
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
"""planned: the container has a name, and may exist. created: the container exists or has existed. retryable: this
attempt has failed, and another attempt may follow. All other states: the launch has ended.
"""

_RECORD = "launch.json"
_LOG_POSITION = "log-position"
_LOCK = "lock"


class RecordKeeper(msgspec.Struct, frozen=True):
    """Functions that keep a launch record outside of the working directory, for example in a database.

    Only one thread may use them. Both functions may raise LauncherError. `read` returns the record, or None if there is
    no record. `write` replaces the record, or removes it if the argument is None. After `write` has returned, the
    record survives the loss of this machine. `write` raises OwnershipLost if another launcher has taken over the
    launch. `logs` is the folder for the positions up to which logs were forwarded. If these positions are lost, the
    next launcher forwards some lines again.
    """

    read: Callable[[], bytes | None]
    write: Callable[[bytes | None], object]
    logs: Path


class Decided(msgspec.Struct, frozen=True):
    """The inputs, outputs and parameters that the driver has decided. The executor gets them."""

    inputs: dict[str, tuple[Artifact, ...]] = {}
    outputs: dict[str, tuple[Artifact, ...]] = {}
    exec_properties: dict[str, Any] = {}


class LaunchRecord(msgspec.Struct, frozen=True):
    """The progress of a launch.

    `fingerprint` is a hash of container, config, inputs and parameters: only a launch with the same hash is resumed.
    `run` is the random part in the names of its containers, pods or TFJobs. `attempt` counts from 1. `name` and `uid`
    identify the object of the current attempt. `kind` is the launcher's name, such as `docker`, and `place` has, for
    example, the namespace of the pod. With `kind` and `place`, another process can stop the container of a dead
    launcher (`launcher.platforms.stopping`).
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
    """Return the execution to publish for a launch, from the launch record.

    If `state` is given, `state` and `message` replace those fields of the record. After a success, the execution has
    the outputs and parameters that the driver decided, unless output.json overrides them.
    """
    if not state:
        state, message = record.state, record.message
    decided, outputs = record.decided, {}
    exec_properties = decided.exec_properties
    if state == "succeeded":
        output = record.output or Output()
        outputs = dict(decided.outputs)
        for name, artifacts in output.artifacts().items():
            place = next((artifact.uri for artifact in decided.outputs.get(name, ())), "")
            outputs[name] = tuple([Artifact(artifact.uri or place, artifact.properties) for artifact in artifacts])
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
    """Return the random part of a new launch's names: 8 hexadecimal digits."""
    return secrets.token_hex(4)


class WorkDirectory:
    """The working directory of a launch. In a `with` block, other launchers can't use the directory. Not thread-safe.

    With a keeper, the launch record and the positions of logs are outside of the directory. Then the launch can
    continue even if all data in the directory are lost.
    """

    def __init__(self, path: Path, keeper: RecordKeeper | None = None) -> None:
        self.path = path.absolute()
        self._keeper = keeper
        self._logs = self.path if keeper is None else keeper.logs
        self._lock: BinaryIO | None = None

    def __enter__(self) -> WorkDirectory:
        try:
            check_own_place(self.path)
            # The folders are private, because a parameter in the record may be a secret. A container gets `tmp` as a
            # mount, so it needs no right for the folders above.
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
        """Return the launch record, or None if there is no record. Raises WorkDirectoryError if it can't be read."""
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
        """Write the launch record. After this method has returned, the record survives a crash of the machine.

        With a keeper, raises the errors of `RecordKeeper.write`. Otherwise raises WorkDirectoryError if the file of the
        record can't be written.
        """
        if self._keeper is not None:
            self._keeper.write(msgspec.json.encode(record))
            return
        try:
            self._write(_RECORD, msgspec.json.encode(record))
        except OSError as error:
            raise WorkDirectoryError(f"{self.path / _RECORD} can't be written: {error.strerror}") from error

    def forget(self) -> None:
        """Remove the launch record and the positions of logs. The next launch then starts from the beginning."""
        if self._keeper is not None:
            self._keeper.write(None)
        (self.path / _RECORD).unlink(missing_ok=True)
        self.forget_logs()

    def to_go_on(self, component: str, fingerprint: str, *, resume: bool) -> LaunchRecord | None:
        """Return the record of the launch to resume, or None to start a new launch.

        Without `resume`, an existing record is removed, but if its container may still run, WorkDirectoryError is
        raised. With `resume`, WorkDirectoryError is raised if the record belongs to another component, or has another
        `fingerprint` (a hash of container, config, inputs and parameters), and AlreadyFailed if the launch has failed
        permanently. A cancelled launch begins again with new names.
        """
        record = self.load()
        if record is None:
            return None
        if not resume:
            if record.name and record.state in ("planned", "created"):
                raise WorkDirectoryError(
                    f"{self.path} has the record of an unfinished launch of {record.component}, and {record.name} "
                    "may still run: continue this launch (--resume), or choose another working directory (--work-dir)"
                )
            self.forget()
            return None
        if (record.component, record.fingerprint) != (component, fingerprint):
            raise WorkDirectoryError(
                f"working directory {self.path} belongs to another launch (of {record.component}, with another "
                "container, config, input or parameter): choose another working directory (--work-dir), or remove "
                "this directory to start again"
            )
        if record.state == "failed":
            raise AlreadyFailed(
                f"component {record.component} has failed for good, so it is not launched again: {record.message}. "
                f"To launch the component nevertheless, choose another working directory or remove {self.path}"
            )
        if record.state == "cancelled":
            return msgspec.structs.replace(record, run=new_run(), attempt=0, name="", uid="", state="retryable")
        return record

    def forget_logs(self) -> None:
        """Remove the positions of logs. Call it before a new attempt, which has new logs."""
        for path in self._logs.glob(f"{_LOG_POSITION}*"):
            path.unlink(missing_ok=True)

    def log_position(self, name: str = "") -> str:
        """Return the position up to which the log `name` was forwarded, or "" if no line was forwarded.

        The position is the time stamp of the last line, or a number of bytes for the log of a process.
        """
        try:
            return (self._logs / f"{_LOG_POSITION}{name}").read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def keep_log_position(self, position: str, name: str = "") -> None:
        """Store the position up to which the log `name` was forwarded. Any thread may call this method.

        Errors are ignored: if a position is lost, the next launcher forwards some lines again.
        """
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
            os.fsync(directory)  # the rename must survive a crash, too
        finally:
            os.close(directory)
