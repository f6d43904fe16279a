"""What is launched: a component, with its artifacts and its parameters. Plain values, nothing of a platform."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.launcher.core.errors import ComponentError
from tfoperator.launcher.core.executor_specs import ExecutorSpec

TMP_PATH = "tmp_path"
"""The execution property that the launcher itself sets: where the container may write output.json."""

DEFAULT = "default"
"""The name under which a runner keeps the configs of all components; no component can have it."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


class Artifact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of data outside of the component: where it is, and what is known about it."""

    uri: str
    properties: dict[str, Any] = {}


ArtifactDict = Mapping[str, Sequence[Artifact]]


class Component(msgspec.Struct, frozen=True):
    """One step of a pipeline. `name` is unique within a pipeline.

    Raises ComponentError for a name that can't be one, and for a property that is the launcher's own.
    """

    name: str
    executor_spec: ExecutorSpec
    inputs: ArtifactDict = {}
    outputs: ArtifactDict = {}
    exec_properties: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > 200:
            raise ComponentError(
                f"{self.name!r} is no name for a component: letters, digits, '-', '_' and '.', at most 200 of them, "
                "a letter or digit first and last"
            )
        if self.name == DEFAULT:
            raise ComponentError(f"a component can't be called {DEFAULT!r}: that is where all components' configs are")
        if TMP_PATH in self.exec_properties:
            raise ComponentError(
                f"component {self.name}: {TMP_PATH} is set by the launcher; call the parameter otherwise"
            )
