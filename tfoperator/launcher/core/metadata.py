"""Metadata of executions: the driver before an execution, the publisher after it, and a simple store of files for both.

A driver decides the executor's inputs, outputs and parameters. Pipelines have a driver that uses a metadata store
(`tfoperator.pipeline`). Other users can implement `Driver` and `Publisher` with a service of their own. `LocalMetadata`
keeps one JSON file per execution. This is enough for single launches and for caching: the outputs of a success are used
again when the same component, with the same image *digest*, is launched with the same inputs and parameters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tfoperator.base.private_files import check_own_place, make_folders
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.launcher.core.component import Artifact, Component
from tfoperator.launcher.core.errors import WorkDirectoryError


class Execution(msgspec.Struct, frozen=True, omit_defaults=True):
    """One execution of a component. `state` is `running`, `succeeded`, `failed`, `retryable` or `cancelled`.

    `image_id` is the image that ran, in the platform's format. `cache_key` is "" if later executions can't reuse the
    outputs.
    """

    id: int
    component: str
    state: str = "running"
    message: str = ""
    cache_key: str = ""
    image_id: str = ""
    inputs: dict[str, tuple[Artifact, ...]] = {}
    outputs: dict[str, tuple[Artifact, ...]] = {}
    exec_properties: dict[str, Any] = {}
    began: datetime | None = None
    ended: datetime | None = None


class Driver(Protocol):
    """The interface of drivers. A launcher calls the driver before an execution."""

    def begin(self, component: Component, identity: str, now: datetime) -> Execution:
        """Return a new execution with a new ID, or an earlier execution that succeeded, whose outputs are reused.

        The executor gets the inputs, outputs and parameters of the returned execution: the driver resolves inputs, and
        chooses the URIs of outputs. `identity` is the digest of the program, or "" if earlier outputs must not be
        reused. The function `cache_key` can compute a cache key from `identity`. If a crash interrupts a launch before
        it has written its launch record (its stored progress), `begin` is called again for the same launch. Raises
        LauncherError if an input can't be determined, and OSError or LauncherError if the execution can't be recorded.
        """
        ...


class Publisher(Protocol):
    """The interface of publishers. A launcher calls the publisher after an execution."""

    def publish(self, execution: Execution) -> None:
        """Record the outcome of an execution. The state `running` means that an interrupted execution continues.

        After a crash, the method may be called again for the same execution.
        """
        ...


class LocalMetadata:
    """A driver and publisher that uses a folder: `<component>/<id>.json`. Several processes may share it."""

    def __init__(self, folder: Path) -> None:
        """Raises WorkDirectoryError if the folder is in a folder `.tfoperator` that another user may replace."""
        self._folder = folder
        try:
            check_own_place(folder.absolute())
        except OSError as error:
            raise WorkDirectoryError(f"{error.filename}: {error.strerror}") from None

    def begin(self, component: Component, identity: str, now: datetime) -> Execution:
        """Return a new execution with the component's inputs, or an earlier success with the same cache key.

        IDs count from 1 for each component.
        """
        key = cache_key(component, identity) if identity else ""
        earlier_executions = list(self._executions(component.name))
        if key:
            again = [
                earlier for earlier in earlier_executions if earlier.cache_key == key and earlier.state == "succeeded"
            ]
            if again:
                return max(again, key=lambda earlier: earlier.id)
        number = max((earlier.id for earlier in earlier_executions), default=0)
        while True:
            number += 1
            execution = Execution(
                number,
                component.name,
                cache_key=key,
                inputs={name: tuple(artifacts) for name, artifacts in component.inputs.items()},
                outputs={name: tuple(artifacts) for name, artifacts in component.outputs.items()},
                exec_properties=dict(component.exec_properties),
                began=now,
            )
            if self._create(execution):
                return execution

    def publish(self, execution: Execution) -> None:
        """Write the execution to its file, in place of its earlier state."""
        path = self._path(execution.component, execution.id)
        make_folders(path.parent)
        partial = path.with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(execution))
        partial.rename(path)

    def _create(self, execution: Execution) -> bool:
        """Create the file of an execution. Return False if another process has created a file for this ID."""
        path = self._path(execution.component, execution.id)
        make_folders(path.parent)
        try:
            with path.open("xb") as stream:
                stream.write(msgspec.json.encode(execution))
        except FileExistsError:
            return False
        return True

    def _executions(self, component: str) -> Iterator[Execution]:
        for path in self._path(component, 0).parent.glob("*.json"):
            data = path.read_bytes()
            if not data:
                continue  # another process has created this file, and will write it next
            try:
                yield msgspec.json.decode(data, type=Execution)
            except UNDECODABLE as error:
                raise WorkDirectoryError(f"{path} can't be read: {error}; remove it") from error

    def _path(self, component: str, number: int) -> Path:
        return self._folder / component / f"{number}.json"


def fingerprint(*parts: Any) -> str:
    """Return a hash of the values as JSON. The order of the members of objects does not matter.

    A value that JSON can't represent counts as its text (`str`).
    """
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic", enc_hook=str)).hexdigest()


def cache_key(component: Component, identity: str) -> str:
    """Return the cache key: a hash of the program, command, arguments, inputs, names of outputs, and parameters.

    Executions with the same key are interchangeable. `identity` identifies the program: it must be a digest, because a
    tag may later name another image.
    """
    spec = component.executor_spec
    words = [getattr(spec, field, ()) for field in ("command", "args")]
    inputs = {name: list(artifacts) for name, artifacts in component.inputs.items()}
    return fingerprint(identity, words, inputs, sorted(component.outputs), dict(component.exec_properties))
