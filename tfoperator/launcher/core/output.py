"""output.json: a component's own report of its outcome, validated before it is used.

The user's container writes it, so it is not trusted: it must be a regular file, of bounded size, and of the schema. Any
other file is a permanent error that says why, because repeating the execution would not mend the program that wrote it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from tfoperator.launcher.core.component import Artifact

OUTPUT_FILE = "output.json"

MAX_OUTPUT_BYTES = 1 << 20
"""Enough for thousands of artifacts; a program that writes more does not mean output.json."""


class MalformedOutput(Exception):
    """output.json is there, but it can't be used; the message says why."""


class ErrorStatus(msgspec.Struct, frozen=True):
    """Says that the component failed, and whether another try could help."""

    code: Literal["PERMANENT_ERROR", "RETRYABLE_ERROR"]
    message: str = ""

    @property
    def retryable(self) -> bool:
        """Whether another try could help."""
        return self.code == "RETRYABLE_ERROR"


class Output(msgspec.Struct, frozen=True):
    """The document. `outputs` is by name one artifact (`{"uri": ..., "properties": {...}}`) or a list of them.

    What `outputs` and `exec_properties` say replaces what was known before; unknown members are ignored, as the schema
    of the TFX design allows them.
    """

    error_status: ErrorStatus | None = None
    outputs: dict[str, Artifact | list[Artifact]] = {}
    exec_properties: dict[str, Any] = {}

    def artifacts(self) -> dict[str, tuple[Artifact, ...]]:
        """The artifacts by output."""
        return {name: (one,) if isinstance(one, Artifact) else tuple(one) for name, one in self.outputs.items()}


_decode = msgspec.json.Decoder(Output).decode


def parse_output(data: bytes, known_outputs: frozenset[str] | None = None) -> Output:
    """Read the document; `known_outputs` are the outputs that the component has. Raises MalformedOutput."""
    if len(data) > MAX_OUTPUT_BYTES:
        raise MalformedOutput(f"{OUTPUT_FILE} is larger than {MAX_OUTPUT_BYTES} bytes")
    try:
        output = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedOutput(f"{OUTPUT_FILE} can't be read: {error}") from error
    stray = sorted(output.outputs.keys() - known_outputs) if known_outputs is not None else []
    if stray:
        raise MalformedOutput(f"{OUTPUT_FILE} has outputs that the component does not: {', '.join(stray)}")
    return output


class OutputStore(Protocol):
    """Where `tmp_path` is, as the launcher sees it. Implement it for an artifact store that is no file system."""

    def clear(self, tmp_path: str) -> None:
        """Make the directory and remove an output.json of an earlier try. Raises OSError."""
        ...

    def read(self, tmp_path: str) -> bytes | None:
        """What output.json holds, at most a byte more than MAX_OUTPUT_BYTES; None if it is not there.

        Raises MalformedOutput if there is something else of that name, OSError if the store can't be reached.
        """
        ...


class LocalOutputStore:
    """A directory that the launcher and the container both see. Thread-safe."""

    def clear(self, tmp_path: str) -> None:
        """Make it, writable for whoever the container runs as, and remove what an earlier try has left.

        A directory that is there already keeps its mode: whoever made it decides who may write.
        """
        directory = Path(tmp_path)
        if not os.path.lexists(directory):
            _make_shared(directory)
        output = directory / OUTPUT_FILE
        if output.is_dir() and not output.is_symlink():
            shutil.rmtree(output)
        output.unlink(missing_ok=True)

    def read(self, tmp_path: str) -> bytes | None:
        """Read it without following links or waiting: the container may have created anything under that name."""
        try:
            handle = os.open(Path(tmp_path, OUTPUT_FILE), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise MalformedOutput(f"{OUTPUT_FILE} can't be opened: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise MalformedOutput(f"{OUTPUT_FILE} is no regular file")
        with os.fdopen(handle, "rb") as stream:
            return stream.read(MAX_OUTPUT_BYTES + 1)


def _make_shared(directory: Path) -> None:
    """Make a directory in which everybody may write, and that is never there without being so. Raises OSError.

    A launcher that is killed halfway would else leave one of which its successor can't tell that it is not the user's.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    made = tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent)
    try:
        os.chmod(made, 0o1777)  # sticky: others may add files, but not remove or replace those of somebody else
        os.rename(made, directory)
    except OSError:
        os.rmdir(made)
        if not directory.is_dir():  # somebody else has made it meanwhile, who decides about it
            raise
