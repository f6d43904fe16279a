"""output.json: a component's own report of its outcome. The launcher validates it before use.

The user's container writes it, so the launcher does not trust it: it must be a regular file of limited size that
matches the schema. Any other file is a permanent error, and the message contains the reason: repeating the execution
would not correct the program.

The verdict on an execution depends on this file and on the container's end. A retry can help in three cases, as in the
TFX design: after a transient error of the platform's API (which this module never gets), if output.json allows a retry,
and if the container was lost. An exit code does not show whether a retry would succeed.
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
"""A folder below `tmp_path`, in which a program that can't access an object store may leave its outputs."""


class OutputStore(Protocol):
    """The storage of `tmp_path`, as the launcher accesses it.

    Implement this interface for an artifact store that is not a file system.
    """

    def clear(self, tmp_path: str) -> None:
        """Create the directory, and remove the output.json of an earlier attempt. Raises OSError."""
        ...

    def read(self, tmp_path: str) -> bytes | None:
        """Return the bytes of output.json, at most MAX_OUTPUT_BYTES + 1. Return None if output.json does not exist.

        Raises MalformedOutput if output.json is not a regular file, and OSError if the store can't be reached.
        """
        ...


class LocalOutputStore:
    """A directory that both the launcher and the container can access, or the URL of objects. In both cases the
    container itself writes output.json. Thread-safe.
    """

    def clear(self, tmp_path: str) -> None:
        """Create a directory in which any user of the container may write, and remove the files of an earlier attempt.

        An existing directory keeps its mode: its creator decides who may write.
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
        """Read the file without following links and without waiting: the container may have created anything under this
        name.
        """
        if is_object_url(tmp_path):
            known = Objects(tmp_path).find(OUTPUT_FILE)
            if known is not None and known.size > MAX_OUTPUT_BYTES:
                raise MalformedOutput(f"{OUTPUT_FILE} is larger than {MAX_OUTPUT_BYTES} bytes")
            found = Objects(tmp_path).get(OUTPUT_FILE, limit=MAX_OUTPUT_BYTES)
            return None if found is None else found[0]
        try:
            stream = open_regular(Path(tmp_path, OUTPUT_FILE))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise MalformedOutput(f"{OUTPUT_FILE} can't be opened: {error.strerror}") from error
        with stream:
            return stream.read(MAX_OUTPUT_BYTES + 1)


def output_file(tmp_path: str) -> str:
    """Return the path of output.json in the container; empty if output.json is an object."""
    return "" if is_object_url(tmp_path) else f"{tmp_path}/{OUTPUT_FILE}"


def _make_shared(directory: Path) -> None:
    """Create a directory in which every user may write. Create it with this mode in one atomic step. Raises OSError.

    Otherwise a launcher that is killed in between could leave a directory without the mode, and the next launcher would
    take it for the user's directory.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    made = tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent)
    try:
        os.chmod(made, 0o1777)  # sticky: a user may add files, but not remove or replace other users' files
        os.rename(made, directory)
    except OSError:
        os.rmdir(made)
        if not directory.is_dir():  # another process has made it meanwhile, and chose its mode
            raise


class ContainerEnd(msgspec.Struct, frozen=True):
    """How a container ended. `exit_code` is None if it is unknown, or if the container was ordered to end before.

    `lost` means that the platform or a person removed the container: it was deleted or evicted, or its node failed.
    `timed_out` means that the container's own time limit ended it, and that it exited with 0. A container that timed
    out has succeeded only if its output.json shows that its work was complete.

    `message` is for people. `output` is an output.json that is not a file, but the termination message of a pod; with
    `output_cut` a part of it may be missing. `by_message` means that output.json can only be the termination message.
    `image_id` is the image that ran, with its digest, if known.
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
    """Return a component's output.json: the file if it exists, else the text in its container's end. Raises OSError.

    After a success, some outputs may be `planned` as objects, but be below `tmp_path`, because the program can't access
    an object store. They are copied to their planned URLs, and the result contains these URLs. The program may leave
    the output NAME at `tmp_path/outputs/NAME`. For this output it then needs no output.json.
    """
    try:
        data = store.read(tmp_path)
        if end is not None and end.by_message and not data:
            data = None  # where the kubelet mounts the message's file into a volume, it leaves an empty file there
        if data is None and end is not None:
            if end.output_cut:
                return MalformedOutput(
                    f"{OUTPUT_FILE} arrived as a termination message, which Kubernetes shortens: the message has "
                    f"{len(end.output or b'')} bytes, and may be incomplete. Mount a volume that the launcher can "
                    "read, too, and give its path as tmp_path (--tmp-path), or write fewer bytes"
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
    found = {} if output is None else output.artifacts()
    for name, artifacts in planned.items():
        left = f"{tmp_path}/{OUTPUTS_FOLDER}/{name}"
        if not artifacts or not is_object_url(artifacts[0].uri) or is_object_url(tmp_path):
            continue
        if os.path.lexists(left):
            said = found.get(name) or (Artifact(""),)
            found[name] = tuple([msgspec.structs.replace(one, uri=one.uri or left) for one in said])
        elif name in found:  # programs name the place of an output that they have not written, too
            found[name] = tuple(
                [msgspec.structs.replace(one, uri="") if one.uri == left else one for one in found[name]]
            )
    if output is None and not found:
        return None
    outputs: dict[str, Any] = {}
    for name, artifacts in found.items():
        place = planned[name][0].uri if planned[name] else ""
        outputs[name] = copies = list(artifacts)
        for number, one in enumerate(artifacts) if is_object_url(place) else ():
            if (path := _below(one.uri, tmp_path)) is not None:
                there = Objects(place if len(artifacts) == 1 else f"{place}/{number}")
                there.remove()  # of an earlier try
                there.upload(path)
                copies[number] = msgspec.structs.replace(one, uri=there.url)
    made = {name: [OutputArtifact(one.uri, one.properties) for one in copies] for name, copies in outputs.items()}
    return msgspec.structs.replace(output or Output(), outputs=made)


def _below(uri: str, tmp_path: str) -> Path | None:
    """Return the file or directory. Return None if the URI is not below `tmp_path`. Raises MalformedOutput.

    The container wrote the file, so the file must not be a link to another place: its content would be shown to all
    users who may read outputs.
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
    """The outcome in the form that a launch's record contains.

    It has a message for users, or after a success its output.json.
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
        output = None  # it may be incomplete, since the container was lost
    if output is not None and output.error_status is not None:
        status = output.error_status
        said = f"output.json says {status.code}: {status.message or 'without a message'}"
        return "retryable" if status.retryable else "failed", said
    if end.exit_code == 0:
        return "succeeded", ""
    if (end.lost or end.timed_out) and output is not None:
        return "succeeded", ""  # the component writes output.json when its work is done
    if end.lost:
        return "retryable", end.message or "its container was removed before it had finished"
    if end.exit_code is None:  # e.g. of a TFJob, whose message has its replicas' codes
        return "failed", end.message or "its exit code is unknown"
    said = f"exit code {end.exit_code}"
    return "failed", f"{said}: {end.message}" if end.message else said
