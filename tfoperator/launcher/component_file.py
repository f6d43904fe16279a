"""component.yaml: a file with a component and its platform configs, for the command line and for sharing.

    name: count-lines
    inputs: [text]                     # or a mapping: name to a default URI, null for none
    outputs: [counts]
    parameters: {longest: 80}          # name to default, null for none; or a list of names
    container: {image: ..., command: [...], args: [...]}     # or  class: package.module:Class
    platforms:                         # each is optional
      docker: {...}                    # arguments of docker-py's containers.run
      process: {environment: {...}}    # the command as a process of this machine
      kubernetes: {metadata: ..., spec: ...}                 # merged over the launcher's pod
      tfjob: {replicas: {Worker: 2}, spec: ..., pod: {metadata: ..., spec: ...}}

Every unknown field is an error, so that a misspelt field has no silent effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.base.yamldata.reader import YamlError, read_value_of_file
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.launcher.core.component import (
    Artifact,
    Component,
    ExecutorClassSpec,
    ExecutorContainerSpec,
    ExecutorSpec,
    Json,
    PlatformConfig,
)
from tfoperator.launcher.core.errors import ComponentError, PlatformConfigError
from tfoperator.launcher.platforms.docker.launcher import DockerPlatformConfig
from tfoperator.launcher.platforms.kubernetes.config import KubernetesPodPlatformConfig
from tfoperator.launcher.platforms.process import ProcessPlatformConfig
from tfoperator.launcher.platforms.tfjob import TFJobPlatformConfig


class _Container(msgspec.Struct, forbid_unknown_fields=True):
    image: str
    command: list[str] = []
    args: list[str] = []


class _Pod(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    metadata: Json = {}
    spec: Json | None = None


class _TFJob(msgspec.Struct, forbid_unknown_fields=True):
    replicas: dict[str, int] = {}
    spec: Json = {}
    pod: _Pod = msgspec.field(default_factory=_Pod)


class _Process(msgspec.Struct, forbid_unknown_fields=True):
    environment: dict[str, str] = {}


class Platforms(msgspec.Struct, forbid_unknown_fields=True):
    """The field `platforms` of a component.yaml: the settings for each platform."""

    docker: Json | None = None
    process: _Process | None = None
    kubernetes: _Pod | None = None
    tfjob: _TFJob | None = None


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    inputs: list[str] | dict[str, str | None] = []
    outputs: list[str] | dict[str, str | None] = []
    parameters: list[str] | Json = []
    container: _Container | None = None
    class_: str | None = msgspec.field(default=None, name="class")
    platforms: Platforms = msgspec.field(default_factory=Platforms)


class ComponentFile(msgspec.Struct, frozen=True):
    """The content of a component.yaml.

    `inputs`, `outputs` and `parameters` map each name to its default. None means that there is no default.
    """

    source: str
    name: str
    executor_spec: ExecutorSpec
    inputs: Mapping[str, str | None] = {}
    outputs: Mapping[str, str | None] = {}
    parameters: Mapping[str, Any] = {}
    configs: Sequence[PlatformConfig] = ()

    def component(
        self,
        inputs: Mapping[str, Sequence[str]] | None = None,
        outputs: Mapping[str, Sequence[str]] | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> Component:
        """Return the component with the URIs and parameters of a command line.

        Parameters are text: see `parameter_values`. Raises ComponentError, which lists all missing and unknown names.
        """
        problems: list[str] = []
        arguments = (("input", self.inputs, inputs or {}), ("output", self.outputs, outputs or {}))
        chosen = [_artifacts(kind, defaults, given, problems) for kind, defaults, given in arguments]
        values = parameter_values(self.parameters, parameters or {}, problems)
        if problems:
            raise ComponentError("\n".join([f"{self.source}: component {self.name} can't be launched:", *problems]))
        return Component(self.name, self.executor_spec, chosen[0], chosen[1], values)


def load_component_file(path: str) -> ComponentFile:
    """Read a component.yaml.

    Raises ComponentError, which names the file and the field. Raises OSError if the file can't be read.
    """
    try:
        loaded = read_value_of_file(path, path)
        if isinstance(loaded, dict) and "apiVersion" in loaded and "kind" in loaded:
            raise ComponentError(
                f"is not a component, but a {loaded['kind']}; for a TFJob, use `tfoperator run` or `submit`"
            )
        return _component_file(path, msgspec.convert(loaded, _Document))
    except YamlError as error:
        raise ComponentError(str(error)) from None
    except msgspec.ValidationError as error:
        raise ComponentError(f"{path}: {str(error).replace('`$.', '`').replace('`$`', 'the document')}") from error
    except ComponentError as error:
        raise ComponentError(f"{path}: {error}") from error


def _component_file(path: str, document: _Document) -> ComponentFile:
    if (document.container is None) == (document.class_ is None):
        raise ComponentError("a component must have either a container or a class")
    container = document.container
    spec: ExecutorSpec
    if container is not None:
        spec = ExecutorContainerSpec(container.image, tuple(container.command), tuple(container.args))
    else:
        spec = ExecutorClassSpec(document.class_ or "")
    file = ComponentFile(
        path,
        document.name,
        spec,
        _named(document.inputs),
        _named(document.outputs),
        _named(document.parameters),
        tuple(platform_configs(document.platforms)),
    )
    Component(file.name, file.executor_spec, exec_properties=dict(file.parameters))  # raises if a name is invalid
    return file


def _named(values: list[str] | dict[str, Any]) -> dict[str, Any]:
    if isinstance(values, list):
        if len(set(values)) < len(values):
            raise ComponentError(f"the names in {', '.join(values)} must differ")
        return dict.fromkeys(values)
    return values


_MAKERS: Mapping[str, Callable[[Any], PlatformConfig]] = {
    "docker": lambda arguments: DockerPlatformConfig(**arguments),
    "process": lambda process: ProcessPlatformConfig(process.environment),
    "kubernetes": lambda pod: KubernetesPodPlatformConfig(pod.spec, metadata=pod.metadata),
    "tfjob": lambda job: TFJobPlatformConfig(
        job.replicas, spec=job.spec, pod_spec=job.pod.spec, metadata=job.pod.metadata
    ),
}


def platform_configs(platforms: Platforms) -> list[PlatformConfig]:
    """Return the configs for the platforms that are set. Raises PlatformConfigError, which names the platform."""
    configs: list[PlatformConfig] = []
    for name, make in _MAKERS.items():
        try:
            configs += [] if (given := getattr(platforms, name)) is None else [make(given)]
        except (PlatformConfigError, TypeError) as error:
            raise PlatformConfigError(f"platforms.{name}: {error}") from error
    return configs


def _artifacts(
    kind: str, defaults: Mapping[str, str | None], given: Mapping[str, Sequence[str]], problems: list[str]
) -> dict[str, tuple[Artifact, ...]]:
    _check_names(kind, defaults, given, problems)
    artifacts: dict[str, tuple[Artifact, ...]] = {}
    for name, default in defaults.items():
        uris = given.get(name) or ([] if default is None else [default])
        if not uris:
            problems.append(f"{kind} {name!r} is missing: --{kind} {name}=URI")
        artifacts[name] = tuple([Artifact(uri) for uri in uris])
    return artifacts


def parameter_values(known: Mapping[str, Any], given: Mapping[str, str], problems: list[str]) -> Json:
    """Return the values of all parameters. `given` has the texts from a command line (`--param NAME=TEXT`).

    `known` has the defaults. If a default is not text and not None, the text is decoded as JSON, and must have the type
    of the default. Errors are added to `problems`.
    """
    _check_names("parameter", known, given, problems)
    values: Json = {}
    for name, default in known.items():
        if name not in given:
            values[name] = default
            if default is None:
                problems.append(f"parameter {name!r} is missing: --param {name}=VALUE")
            continue
        values[name] = given[name]
        if default is not None and not isinstance(default, str):
            kinds: Any = (int, float) if isinstance(default, float) else (type(default),)
            try:
                value = msgspec.json.decode(given[name].encode())
            except UNDECODABLE:
                value = None
            if type(value) not in kinds:
                problems.append(
                    f"parameter {name!r} must be {type(default).__name__}, as its default, but is {given[name]!r}"
                )
            values[name] = value
    return values


def _check_names(kind: str, definitions: Mapping[str, Any], given: Mapping[str, Any], problems: list[str]) -> None:
    for name in sorted(given.keys() - definitions.keys()):
        there = f"there are {', '.join(sorted(definitions))}" if definitions else f"the component has no {kind}s"
        problems.append(f"it has no {kind} {name!r}; {there}")
