"""What is launched: a component, its settings for a platform, and what a launch returns. Plain values.

Platform configs are kept apart from components, so that the same pipeline runs anywhere. They come in layers: what a
runner says for all components, then what it says for one.
"""

from __future__ import annotations

import abc
import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from tfoperator.launcher.core.errors import ComponentError, PlatformConfigError
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


class LaunchResult(msgspec.Struct, frozen=True):
    """A success. `outputs` and `exec_properties` are those of the component, unless output.json has others.

    `cached`: nothing ran, an earlier execution's outputs are used. `attempts` counts the executions of this launch.
    """

    component: str
    execution_id: int
    outputs: Mapping[str, tuple[Artifact, ...]]
    exec_properties: Mapping[str, Any]
    cached: bool = False
    attempts: int = 1
    image_id: str = ""


Json = dict[str, Any]


class PlatformConfig(abc.ABC):
    """Base of all platform configs. Immutable: nothing changes one, `merge` puts a newer layer on top.

    The newer one wins, and whatever it states counts, be it `False`, `0` or empty.
    """

    def merge(self, platform_config: PlatformConfig) -> Self:
        """A config of this one with a newer one on top. PlatformConfigError if that is for another platform."""
        if type(platform_config) is not type(self):
            raise PlatformConfigError(
                f"{type(platform_config).__name__} can't be merged into {type(self).__name__}: "
                "a config only merges with one of its own type"
            )
        return self._merged(platform_config)

    @abc.abstractmethod
    def named(self, origin: str) -> Self:
        """The same config, its layers marked with where they come from: `default config`, `config of trainer`."""

    @abc.abstractmethod
    def _merged(self, new: Self) -> Self: ...

    @abc.abstractmethod
    def as_json(self) -> Json:
        """All of it, to recognise another config."""


def merge_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Dictionaries merged recursively; everything else of the newer one replaces. Shares nothing with either."""
    merged = copy.deepcopy(dict(old))
    for key, value in new.items():
        before = merged.get(key)
        both = isinstance(before, dict) and isinstance(value, Mapping)
        merged[key] = merge_values(before, value) if both else copy.deepcopy(value)  # type: ignore[arg-type]
    return merged
