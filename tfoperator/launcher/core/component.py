"""The input and result of a launch: a component, its executor, its settings for a platform, and the outputs.

A container image with a command does the work, or a class of this Python environment. Environment variables are not
part of it: they differ between platforms, so they belong in a platform config.

Platform configs are kept apart from components, so that the same pipeline runs anywhere. They have layers: a runner's
config for all components, then its config for a single component.
"""

from __future__ import annotations

import abc
import copy
import hashlib
import importlib
import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self

import msgspec

from tfoperator.launcher.core.errors import ComponentError, PlatformConfigError

Json = dict[str, Any]

TMP_PATH = "tmp_path"
"""The execution property that the launcher itself sets: the place where the container may write output.json."""

DEFAULT = "default"
"""The name under which a runner keeps the configs of all components; a component can't have this name."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


_PATH = re.compile(r"\w+(\.\w+)*:\w+")


class ExecutorSpec(msgspec.Struct, frozen=True):
    """Base of all executors: they do a component's work."""


class ExecutorContainerSpec(ExecutorSpec, frozen=True):
    """An image and, as in Kubernetes, the command that replaces its entry point and the arguments that replace its CMD.

    All three may hold placeholders; see `launcher.container.templates`. `container_image` is the TFX design's
    `image`. Raises ComponentError if there is no image, or an argument is not text.
    """

    image: str = ""
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    container_image: str = ""

    knows_files_only: ClassVar[bool] = False
    """Whether its artifacts have to be files for it, wherever they are."""

    def __post_init__(self) -> None:
        if self.container_image:
            if self.image:
                raise ComponentError("image and container_image mean the same: give only one of them")
            msgspec.structs.force_setattr(self, "image", self.container_image)
            msgspec.structs.force_setattr(self, "container_image", "")
        if not isinstance(self.image, str) or not self.image.strip():
            raise ComponentError("a container needs an image")
        for field, words in (("command", self.command), ("args", self.args)):
            if isinstance(words, str) or not all(isinstance(word, str) for word in words):
                raise ComponentError(f"{field} must be a list of strings, but is {words!r}")

    def words(
        self,
        inputs: ArtifactDict,
        outputs: ArtifactDict,
        properties: Mapping[str, Any],
        places: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[list[str], list[str]] | None:
        """Return command and arguments, if the spec has placeholders of its own and replaces them; else None.

        `places` has, by their URLs, the paths of artifacts that are files for the program.
        """
        del inputs, outputs, properties, places
        return None


class Executor(Protocol):
    """A Python class that does a component's work; instantiated without arguments for each execution.

    TFX's spelling `Do` of the method is taken, too. Both mappings have lists of `ExecutorArtifact`.

    It may raise `PermanentFailure` or `RetryableFailure`; `sys.exit` has the same meaning as in a container. Any other
    error that it raises is permanent.
    """

    def do(
        self,
        input_dict: Mapping[str, Sequence[Any]],
        output_dict: Mapping[str, Sequence[Any]],
        exec_properties: Mapping[str, Any],
    ) -> None:
        """Do the work. `exec_properties["tmp_path"]` is a directory where it may write output.json."""
        ...


def imported(path: str) -> Any:
    """Return what `package.module:NAME` names, imported now. Raises ComponentError."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        where = "; Python looks in the folders of PYTHONPATH" if isinstance(error, ModuleNotFoundError) else ""
        raise ComponentError(
            f"{path!r} is not a class that can be imported (package.module:Class): {error}{where}"
        ) from error
    except SystemExit as error:
        raise ComponentError(f"{path!r} can't be imported: its module calls sys.exit({error.code!r})") from error


class ExecutorClassSpec(ExecutorSpec, frozen=True):
    """A class with a method `do`, or `Do` as in TFX (see `Executor`), or its path `package.module:Class`.

    Only `load` imports a path, and so runs its module's code: reading a component file, or a dry run of it, runs no
    code. Raises ComponentError for a path of another form.
    """

    executor_class: type[Any] | str

    def __post_init__(self) -> None:
        if isinstance(self.executor_class, str) and not _PATH.fullmatch(self.executor_class):
            raise ComponentError(
                f"{self.executor_class!r} is not the path of a class: use the form package.module:Class"
            )

    def load(self) -> type[Any]:
        """Return the class, imported if necessary. Raises ComponentError if it doesn't exist or is no executor."""
        found = imported(self.executor_class) if isinstance(self.executor_class, str) else self.executor_class
        if not isinstance(found, type) or not any(callable(getattr(found, name, None)) for name in ("do", "Do")):
            raise ComponentError(
                f"{self.path} is not an executor: an executor is a class with a method do(inputs, outputs, "
                "properties), or Do"
            )
        if inspect.isabstract(found) or not _takes_nothing(found):
            raise ComponentError(f"{self.path} is not an executor: its class can't be instantiated without arguments")
        return found

    @property
    def path(self) -> str:
        """`package.module:Class`."""
        known = self.executor_class
        if isinstance(known, type):
            return f"{known.__module__}:{known.__qualname__}"
        return known if isinstance(known, str) else repr(known)


def _takes_nothing(made: type[Any]) -> bool:
    try:
        inspect.signature(made).bind()
    except TypeError:
        return False
    except ValueError:  # of a class that is not written in Python
        return True
    return True


def source_digest(known: type[Any]) -> str:
    """Return the digest of the file that a class is written in; "" if there is none."""
    try:
        source = inspect.getsourcefile(known)
        return "" if source is None else "sha256:" + hashlib.sha256(Path(source).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return ""


class Artifact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of data outside of the component: its URI, and its properties."""

    uri: str
    properties: dict[str, Any] = {}


ArtifactDict = Mapping[str, Sequence[Artifact]]


class ExecutorArtifact:
    """An artifact as an executor gets it.

    The fields that it sets of an output are recorded, unless output.json has the output. It has the same methods as
    TFX's artifacts.
    """

    def __init__(self, artifact: Artifact) -> None:
        self.uri = artifact.uri
        self.properties: dict[str, Any] = copy.deepcopy(artifact.properties)

    def has_custom_property(self, key: str) -> bool:
        """Return whether it has a property."""
        return key in self.properties

    def get_custom_property(self, key: str) -> Any:
        """Return a property, None if there is none."""
        return self.properties.get(key)

    def set_string_custom_property(self, key: str, value: str) -> None:
        """Set a property to a text."""
        self.properties[key] = str(value)

    def set_int_custom_property(self, key: str, value: int) -> None:
        """Set a property to a whole number."""
        self.properties[key] = int(value)

    def set_float_custom_property(self, key: str, value: float) -> None:
        """Set a property to a number."""
        self.properties[key] = float(value)

    def get_string_custom_property(self, key: str) -> str:
        """Return a property as text, "" if there is none."""
        return str(self.properties.get(key, ""))

    def get_int_custom_property(self, key: str) -> int:
        """Return a property as a whole number, 0 if there is none."""
        return int(self.properties.get(key, 0))

    def get_float_custom_property(self, key: str) -> float:
        """Return a property as a number, 0 if there is none."""
        return float(self.properties.get(key, 0.0))


class Component(msgspec.Struct, frozen=True):
    """One step of a pipeline. `name` is unique within a pipeline.

    Raises ComponentError for an invalid name, and for a property reserved for the launcher.
    """

    name: str
    executor_spec: ExecutorSpec
    inputs: ArtifactDict = {}
    outputs: ArtifactDict = {}
    exec_properties: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > 200:
            raise ComponentError(
                f"{self.name!r} is not a valid name for a component: use at most 200 letters, digits, '-', '_' and "
                "'.', with a letter or digit at the beginning and at the end"
            )
        if self.name == DEFAULT:
            raise ComponentError(
                f"a component must not have the name {DEFAULT!r}: under this name are the configs of all components"
            )
        if TMP_PATH in self.exec_properties:
            raise ComponentError(
                f"component {self.name}: the launcher sets {TMP_PATH}, so give the parameter another name"
            )


class LaunchResult(msgspec.Struct, frozen=True):
    """A success. `outputs` and `exec_properties` are the component's, unless output.json overrides them.

    `cached`: the launch ran nothing, and uses an earlier execution's outputs. `attempts` counts the executions of this
    launch.
    """

    component: str
    execution_id: int
    outputs: Mapping[str, tuple[Artifact, ...]]
    exec_properties: Mapping[str, Any]
    cached: bool = False
    attempts: int = 1
    image_id: str = ""


class PlatformConfig(abc.ABC):
    """Base of all platform configs. Immutable: `merge` returns a config with a newer layer on top.

    The newer layer wins, and every value that it sets counts, even `False`, `0` or an empty value.
    """

    def merge(self, platform_config: PlatformConfig) -> Self:
        """Return this config with a newer config on top. PlatformConfigError if that is for another platform."""
        if type(platform_config) is not type(self):
            raise PlatformConfigError(
                f"{type(platform_config).__name__} can't be merged into {type(self).__name__}: both configs must "
                "have the same type"
            )
        return self._merged(platform_config)

    def named(self, origin: str) -> Self:
        """Return the same config, its layers, if it has any, marked with their origin: `config of trainer`."""
        del origin
        return self

    @abc.abstractmethod
    def _merged(self, new: Self) -> Self: ...

    @abc.abstractmethod
    def as_json(self) -> Json:
        """Return all of it as JSON, to compare configs."""


def merge_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Merge dictionaries recursively; other values of `new` replace values of `old`.

    The result shares nothing with them.
    """
    merged = copy.deepcopy(dict(old))
    for key, value in new.items():
        before = merged.get(key)
        both = isinstance(before, dict) and isinstance(value, Mapping)
        merged[key] = merge_values(before, value) if both else copy.deepcopy(value)  # type: ignore[arg-type]
    return merged
