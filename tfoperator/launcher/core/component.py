"""The input and result of a launch: a component, its executor, its settings for a platform, and the outputs.

An executor does the component's work: a container image with a command, or a class in this Python environment. Platform
configs are separate from components, so the same component can run on every platform. A platform config has, for
example, the environment variables. A runner can have a config for all components and a config for a single component.
The runner merges the config of the single component over the config for all components.

The program may write a file output.json, its own report of its outcome and outputs (see `launcher.core.output`).
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
"""The name of an execution property (a parameter) that the launcher itself sets. Its value is the path of a directory,
or a URL in an object store. The container may write output.json there.
"""

DEFAULT = "default"
"""The key under which a runner has the platform configs for all components. So a component can't have this name."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


_PATH = re.compile(r"\w+(\.\w+)*:\w+")


class ExecutorSpec(msgspec.Struct, frozen=True):
    """The base class of the descriptions of executors. An executor does a component's work."""


class ExecutorContainerSpec(ExecutorSpec, frozen=True):
    """A container image, a command and arguments.

    As in Kubernetes, the command replaces the image's entry point, and the arguments replace its CMD. All three may
    contain placeholders, which `launcher.container.templates` describes. `container_image` is the name that the TFX
    design has for `image`. Raises ComponentError if there is no image, or an argument is not text.
    """

    image: str = ""
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    container_image: str = ""

    knows_files_only: ClassVar[bool] = False
    """Whether the program can only use files. Then the launcher downloads and uploads artifacts of an object store."""

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
        """Return the command and arguments without placeholders, if the spec replaces placeholders itself; else None.

        `places` has the paths of artifacts that the program reads as files, by the artifacts' URLs in an object store.
        """
        del inputs, outputs, properties, places
        return None


class Executor(Protocol):
    """A Python class that does a component's work. For each execution it is instantiated without arguments.

    The method `do` may also be named `Do`, as in TFX. `input_dict` and `output_dict` contain lists of
    `ExecutorArtifact`.

    `do` may raise `PermanentFailure` or `RetryableFailure`. `sys.exit(CODE)` has the same effect as this exit code of a
    container. Any other exception is a permanent failure.
    """

    def do(
        self,
        input_dict: Mapping[str, Sequence[Any]],
        output_dict: Mapping[str, Sequence[Any]],
        exec_properties: Mapping[str, Any],
    ) -> None:
        """Do the work. The executor may write a report, output.json, in the directory `exec_properties["tmp_path"]`."""
        ...


def imported(path: str) -> Any:
    """Import the module of `package.module:NAME`, and return the object NAME in it.

    Raises ComponentError if the module can't be imported, or has no object NAME.
    """
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
    """The class of an `Executor`, or the path of the class in the form `package.module:Class`.

    Only `load` imports the module of a path, and so runs the module's code. The constructor does not import it: so a
    dry run and the reading of a component.yaml run no code. The constructor raises ComponentError for a path in another
    form.
    """

    executor_class: type[Any] | str

    def __post_init__(self) -> None:
        if isinstance(self.executor_class, str) and not _PATH.fullmatch(self.executor_class):
            raise ComponentError(
                f"{self.executor_class!r} is not the path of a class: use the form package.module:Class"
            )

    def load(self) -> type[Any]:
        """Return the class. If the spec has a path, import its module.

        Raises ComponentError if the class doesn't exist, or if it is not an executor.
        """
        executor = imported(self.executor_class) if isinstance(self.executor_class, str) else self.executor_class
        if not isinstance(executor, type) or not any(callable(getattr(executor, name, None)) for name in ("do", "Do")):
            raise ComponentError(
                f"{self.path} is not an executor: an executor is a class with a method do(inputs, outputs, "
                "properties), or Do"
            )
        if inspect.isabstract(executor) or not _takes_nothing(executor):
            raise ComponentError(f"{self.path} is not an executor: its class can't be instantiated without arguments")
        return executor

    @property
    def path(self) -> str:
        """The path `package.module:Class` of the class."""
        executor = self.executor_class
        if isinstance(executor, type):
            return f"{executor.__module__}:{executor.__qualname__}"
        return executor if isinstance(executor, str) else repr(executor)


def _takes_nothing(made: type[Any]) -> bool:
    try:
        inspect.signature(made).bind()
    except TypeError:
        return False
    except ValueError:  # a class that is not written in Python may have no signature
        return True
    return True


def source_digest(known: type[Any]) -> str:
    """Return `sha256:` and the hash of the file in which a class is defined, or "" if there is no such file."""
    try:
        source = inspect.getsourcefile(known)
        return "" if source is None else "sha256:" + hashlib.sha256(Path(source).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return ""


class Artifact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of data that a component reads or makes: its URI and its properties."""

    uri: str
    properties: dict[str, Any] = {}


ArtifactDict = Mapping[str, Sequence[Artifact]]


class ExecutorArtifact:
    """An artifact as an argument of `Executor.do`. It has methods of TFX's artifacts.

    If the executor changes `uri` or `properties` of an output, the change is recorded, unless output.json contains this
    output.
    """

    def __init__(self, artifact: Artifact) -> None:
        self.uri = artifact.uri
        self.properties: dict[str, Any] = copy.deepcopy(artifact.properties)

    def has_custom_property(self, key: str) -> bool:
        """Return whether the artifact has this property."""
        return key in self.properties

    def get_custom_property(self, key: str) -> Any:
        """Return a property. Return None if it does not exist."""
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
        """Return a property as text; "" if it does not exist."""
        return str(self.properties.get(key, ""))

    def get_int_custom_property(self, key: str) -> int:
        """Return a property as a whole number; 0 if it does not exist."""
        return int(self.properties.get(key, 0))

    def get_float_custom_property(self, key: str) -> float:
        """Return a property as a number; 0 if it does not exist."""
        return float(self.properties.get(key, 0.0))


class Component(msgspec.Struct, frozen=True):
    """One step of a pipeline. `name` must be unique within a pipeline.

    The constructor raises ComponentError for an invalid name, and if there is a parameter `tmp_path`.
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
                f"a component must not have the name {DEFAULT!r}: configs with this name apply to all components"
            )
        if TMP_PATH in self.exec_properties:
            raise ComponentError(
                f"component {self.name}: the launcher sets {TMP_PATH}, so give the parameter another name"
            )


class LaunchResult(msgspec.Struct, frozen=True):
    """The result of a successful launch. output.json may override the component's outputs and parameters.

    `cached` means that the launch ran nothing, and uses the outputs of an earlier execution. `attempts` is the number
    of times that the launch has run the program.
    """

    component: str
    execution_id: int
    outputs: Mapping[str, tuple[Artifact, ...]]
    exec_properties: Mapping[str, Any]
    cached: bool = False
    attempts: int = 1
    image_id: str = ""


class PlatformConfig(abc.ABC):
    """The base class of all platform configs. A config is immutable.

    `merge` returns a new config, in which the values of the newer config override the values of the older config. A
    value that the newer config sets to `False`, `0` or empty also overrides.
    """

    def merge(self, platform_config: PlatformConfig) -> Self:
        """Return this config with the values of `platform_config` merged over it.

        Raises PlatformConfigError if `platform_config` is for another platform.
        """
        if type(platform_config) is not type(self):
            raise PlatformConfigError(
                f"{type(platform_config).__name__} can't be merged into {type(self).__name__}: both configs must "
                "have the same type"
            )
        return self._merged(platform_config)

    def named(self, origin: str) -> Self:
        """Return the same config with a name for its origin, such as `config of trainer`, which messages show.

        If the config was merged from several configs, each of them gets the name. A config of this base class keeps no
        name. Subclasses whose messages show the origin override this method.
        """
        del origin
        return self

    @abc.abstractmethod
    def _merged(self, new: Self) -> Self: ...

    @abc.abstractmethod
    def as_json(self) -> Json:
        """Return the whole config as JSON, to compare configs."""


def merge_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Merge dictionaries recursively; other values of `new` replace values of `old`.

    The result shares no parts with `old` or `new`.
    """
    merged = copy.deepcopy(dict(old))
    for key, value in new.items():
        before = merged.get(key)
        both = isinstance(before, dict) and isinstance(value, Mapping)
        merged[key] = merge_values(before, value) if both else copy.deepcopy(value)  # type: ignore[arg-type]
    return merged
