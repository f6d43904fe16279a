"""output.json: a component's own report of its outcome. The launcher validates it before use.

The user's container writes this file, so the launcher does not trust it. It must be a regular file of limited size that
matches the schema (`output_document`). Any other file is a permanent failure.

The outcome of an execution depends on this file and on the container's end. A failure is retryable if output.json has
the code `RETRYABLE_ERROR`, or if the container was lost, for example because its node failed. Any other failure is
permanent, whatever the exit code is.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from tfoperator.base.files import local_path, open_regular
from tfoperator.launcher.core.component import Artifact
from tfoperator.launcher.core.errors import PermanentFailure, RetryableFailure
from tfoperator.launcher.core.output_document import (
    MAX_OUTPUT_BYTES,
    OUTPUT_FILE,
    MalformedOutput,
    Output,
    OutputArtifact,
    parse_output,
)
from tfoperator.object_store import Objects, is_object_url

OUTPUTS_FOLDER = "outputs"
"""A folder in `tmp_path`, in which a program that can't access an object store writes its outputs."""


class OutputStore(Protocol):
    """The access of a launcher to the files in `tmp_path`, where a container writes output.json.

    Implement this interface for a `tmp_path` that is neither a directory nor a URL in an object store.
    """

    def clear(self, tmp_path: str) -> None:
        """Create the directory `tmp_path`, and remove the output.json of an earlier attempt.

        Raises OSError if the store can't be reached or changed.
        """
        ...

    def read(self, tmp_path: str) -> bytes | None:
        """Return the bytes of output.json, at most MAX_OUTPUT_BYTES + 1. Return None if output.json does not exist.

        MAX_OUTPUT_BYTES + 1 bytes show that the file is too large. Raises MalformedOutput if output.json is not a
        regular file, and OSError if the store can't be reached.
        """
        ...


class LocalOutputStore:
    """The access to a launch's `tmp_path`: the place where the component's container writes its output.json.

    A `tmp_path` is a directory of this machine, or a URL in an object store. Thread-safe.
    """

    def clear(self, tmp_path: str) -> None:
        """Create a directory `tmp_path` with mode 1777. Remove the output.json of an earlier attempt.

        Containers can run with any user ID, and must be able to write to the directory. An existing directory keeps its
        mode. If `tmp_path` is a URL, there is no directory to create. Raises OSError if the directory or the object
        store can't be changed.
        """
        if is_object_url(tmp_path):
            Objects(tmp_path).delete([OUTPUT_FILE])
            return
        directory = Path(tmp_path)
        if not os.path.lexists(directory):
            _make_shared(directory)
        output = directory / OUTPUT_FILE
        if output.is_dir() and not output.is_symlink():
            shutil.rmtree(output)
        output.unlink(missing_ok=True)

    def read(self, tmp_path: str) -> bytes | None:
        """Return the bytes of output.json, at most MAX_OUTPUT_BYTES + 1, or None if it does not exist.

        The container can create a symbolic link or a named pipe with this name. So the method does not follow a link,
        and does not wait for a pipe. Raises MalformedOutput if output.json is no readable regular file, or if an object
        store has an output.json of more than MAX_OUTPUT_BYTES. Raises OSError if the store can't be reached.
        """
        if is_object_url(tmp_path):
            entry = Objects(tmp_path).find(OUTPUT_FILE)
            if entry is not None and entry.size > MAX_OUTPUT_BYTES:
                raise MalformedOutput(f"{OUTPUT_FILE} is larger than {MAX_OUTPUT_BYTES} bytes")
            fetched = Objects(tmp_path).get(OUTPUT_FILE, limit=MAX_OUTPUT_BYTES)
            return None if fetched is None else fetched[0]
        try:
            stream = open_regular(Path(tmp_path, OUTPUT_FILE))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise MalformedOutput(f"{OUTPUT_FILE} can't be opened: {error.strerror}") from error
        with stream:
            return stream.read(MAX_OUTPUT_BYTES + 1)


def output_file(tmp_path: str) -> str:
    """Return the path of output.json in the container, or "" if `tmp_path` is a URL in an object store."""
    return "" if is_object_url(tmp_path) else f"{tmp_path}/{OUTPUT_FILE}"


def _make_shared(directory: Path) -> None:
    """Create a directory with mode 1777 under a temporary name, then rename it to `directory`. Raises OSError.

    With these two steps, `directory` never exists without this mode, even if the launcher is killed. The next launcher
    would not change the mode of an existing directory.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    made = tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent)
    try:
        os.chmod(made, 0o1777)  # sticky: a user may add files, but not remove or replace other users' files
        os.rename(made, directory)
    except OSError:
        os.rmdir(made)
        if not directory.is_dir():  # otherwise another process has made it meanwhile
            raise


class ContainerEnd(msgspec.Struct, frozen=True):
    """How a container ended. `exit_code` is None if it is unknown, or if something else than the program ended it.

    `lost` means that the container was stopped or deleted by another program or person, was evicted, or that its node
    failed. `timed_out` means that the pod's deadline ended the container, and that it exited with 0. In both cases, the
    container has succeeded only if it has written output.json, which a program writes at the end of its work.

    `message` is for people. `output` is the content of output.json if the launcher can't read output.json as a file.
    For example, it is the termination message of a pod. With `output_cut`, the end of `output` may be missing.
    `by_message` means that the pod returns output.json only as its termination message. `image_id` is the image that
    ran, with its digest, if known.
    """

    exit_code: int | None = None
    message: str = ""
    lost: bool = False
    output: bytes | None = None
    output_cut: bool = False
    by_message: bool = False
    image_id: str = ""
    timed_out: bool = False


def read_output(
    store: OutputStore, tmp_path: str, planned: Mapping[str, Sequence[Artifact]], end: ContainerEnd | None = None
) -> Output | MalformedOutput | None:
    """Return a component's output.json: the file if it exists, else `end.output`.

    Return MalformedOutput for an invalid document, and None if the program has written no document and no outputs.
    Raises OSError if `tmp_path` or the object store can't be read or written.

    `planned` has the component's outputs. After a success, outputs that are planned at a URL of an object store, but
    are files below `tmp_path`, are uploaded to their planned URLs, and the result contains these URLs. Such a file is
    named in output.json, or is at `tmp_path/outputs/NAME` for the output NAME.
    """
    try:
        data = store.read(tmp_path)
        if end is not None and end.by_message and not data:
            # The kubelet mounts a file for the termination message. In a volume, this mount leaves an empty
            # output.json.
            data = None
        if data is None and end is not None:
            if end.output_cut:
                return MalformedOutput(
                    f"{OUTPUT_FILE} arrived as a termination message, which Kubernetes shortens: the message has "
                    f"{len(end.output or b'')} bytes, and may be incomplete. Mount a volume that the launcher can "
                    f"read, too, and give its path as tmp_path (--tmp-path), or write a shorter {OUTPUT_FILE}"
                )
            data = end.output
        output = None if data is None else parse_output(data, frozenset(planned))
        failed = output is not None and output.error_status is not None
        if failed or (end is not None and (end.exit_code or (output is None and end.exit_code is None))):
            return output
        return _copied(output, planned, tmp_path)
    except MalformedOutput as error:
        return error


def _copied(output: Output | None, planned: Mapping[str, Sequence[Artifact]], tmp_path: str) -> Output | None:
    by_output = {} if output is None else output.artifacts()
    for name, artifacts in planned.items():
        left = f"{tmp_path}/{OUTPUTS_FOLDER}/{name}"
        if not artifacts or not is_object_url(artifacts[0].uri) or is_object_url(tmp_path):
            continue
        if os.path.lexists(left):
            reported = by_output.get(name) or (Artifact(""),)
            by_output[name] = tuple(
                [msgspec.structs.replace(artifact, uri=artifact.uri or left) for artifact in reported]
            )
        elif name in by_output:  # a program may name the path `left` in output.json without writing the output
            by_output[name] = tuple(
                [
                    msgspec.structs.replace(artifact, uri="") if artifact.uri == left else artifact
                    for artifact in by_output[name]
                ]
            )
    if output is None and not by_output:
        return None
    outputs: dict[str, Any] = {}
    for name, artifacts in by_output.items():
        place = planned[name][0].uri if planned[name] else ""
        outputs[name] = copies = list(artifacts)
        for number, artifact in enumerate(artifacts) if is_object_url(place) else ():
            if (path := _below(artifact.uri, tmp_path)) is not None:
                there = Objects(place if len(artifacts) == 1 else f"{place}/{number}")
                there.remove()  # objects that an earlier attempt has uploaded
                there.upload(path)
                copies[number] = msgspec.structs.replace(artifact, uri=there.url)
    made = {name: [OutputArtifact(copy.uri, copy.properties) for copy in copies] for name, copies in outputs.items()}
    return msgspec.structs.replace(output or Output(), outputs=made)


def _below(uri: str, tmp_path: str) -> Path | None:
    """Return the file or directory at a URI below `tmp_path`. Return None for any other URI.

    Raises MalformedOutput if the path does not exist, or if a symbolic link leads out of `tmp_path`: the container
    could create a link to a secret file of this machine, and the launcher would upload the file's content.
    """
    path = local_path(uri) or Path(uri)
    if is_object_url(tmp_path) or not path.is_relative_to(tmp_path):
        return None
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise MalformedOutput(
            f"{OUTPUT_FILE} names {uri}, which does not exist on the launcher's machine, so it can't be copied"
        ) from None
    if not real.is_relative_to(Path(tmp_path).resolve()) or not (real.is_file() or real.is_dir()):
        raise MalformedOutput(
            f"{OUTPUT_FILE} names {uri}, which is outside of tmp_path, or is neither a file nor a directory"
        )
    return real


VerdictState = Literal["succeeded", "failed", "retryable"]


class ExecutionVerdict(msgspec.Struct, frozen=True):
    """The outcome of an execution, as the launch record contains it.

    After a failure it has a message. After a success it has the output.json, if there is an output.json.
    """

    state: VerdictState
    message: str = ""
    output: Output | None = None
    image_id: str = ""

    def raise_failure(self, what: str) -> None:
        """Raise PermanentFailure or RetryableFailure unless the outcome is a success.

        The message begins with `what`.
        """
        if self.state == "failed":
            raise PermanentFailure(f"{what}: {self.message}")
        if self.state == "retryable":
            raise RetryableFailure(f"{what}: {self.message}")


def judge(end: ContainerEnd, output: Output | MalformedOutput | None) -> ExecutionVerdict:
    """Return the outcome of one execution. `output` is None if there is no output.json."""
    state, message = _judged(end, output)
    reported = output if state == "succeeded" and isinstance(output, Output) else None
    return ExecutionVerdict(state, message, reported, end.image_id)


def _judged(end: ContainerEnd, output: Output | MalformedOutput | None) -> tuple[VerdictState, str]:
    if isinstance(output, MalformedOutput):
        if not end.lost:
            return "failed", str(output)
        output = None  # the container was lost, perhaps while it wrote output.json
    if output is not None and output.error_status is not None:
        status = output.error_status
        reason = f"output.json has the error {status.code}, {status.message or 'without a message'}"
        return "retryable" if status.retryable else "failed", reason
    if end.exit_code == 0:
        return "succeeded", ""
    if (end.lost or end.timed_out) and output is not None:
        return "succeeded", ""  # a program writes output.json at the end of its work
    if end.lost:
        return "retryable", end.message or "its container was removed before it had finished"
    if end.exit_code is None:  # for example a TFJob: its message has the exit codes of its replicas
        return "failed", end.message or "its exit code is unknown"
    reason = f"exit code {end.exit_code}"
    return "failed", f"{reason}: {end.message}" if end.message else reason
