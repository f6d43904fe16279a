"""The executors of an IR (the YAML that Kubeflow's SDK compiles): containers and their platform configs.

The command of a container can have placeholders, such as `{{$.inputs.parameters['rate']}}`. The placeholders are
replaced when the inputs are known. A platform config has the resources and the environment variables of a container,
and the settings under `platforms.tfoperator` in the pipeline's file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from tfoperator.kube.http.nesting import reaches
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.kube.views.pod_spec import verbatim
from tfoperator.launcher import (
    Artifact,
    ComponentError,
    DockerPlatformConfig,
    ExecutorContainerSpec,
    KubernetesPodPlatformConfig,
    PlatformConfig,
    ProcessPlatformConfig,
    RetryPolicy,
    TFJobPlatformConfig,
)
from tfoperator.launcher.component_file import Platforms, platform_configs
from tfoperator.launcher.container.templates import rendered_value
from tfoperator.launcher.core.component import TMP_PATH, ArtifactDict, Json
from tfoperator.launcher.core.output_document import OUTPUT_FILE
from tfoperator.pipeline.kfp.jobs import typed_parameters
from tfoperator.pipeline.kfp.resources import resources_of

PLACEHOLDER = re.compile(r"\{\{\$(?P<path>[^{}]*)\}\}")
_KEY = re.compile(r"\.(\w+)|\['([^']+)'\]")
_FIELDS = {"uri": "uri", "path": "uri", "name": "name", "metadata": "metadata"}
"""For each field of an artifact in a placeholder (`{{$.inputs.artifacts['data'].path}}`), the key in `_described`."""
_NOTHING: Json = {"inputs": {"parameterValues": {}, "artifacts": {}}, "outputs": {"parameters": {}, "artifacts": {}}}
_MAX_WORD = 128 << 10
"""The maximum size of an argument of a program on Linux, in bytes."""
_MAX_DEPTH = 100
"""An argument with this many levels of `Concat` and `IfPresent`, or with more, is refused."""
_TFX_OPTION = "--json_serialized_invocation_args"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class _Structure(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The JSON of an argument that is not plain text.

    `{"Concat": [...]}` joins texts. `{"IfPresent": ...}` is one text if an input is given, and another text otherwise.
    """

    joined: list[str | _Structure] | None = msgspec.field(name="Concat", default=None)
    chosen: _Choice | None = msgspec.field(name="IfPresent", default=None)


class _Choice(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    name: str = msgspec.field(name="InputName")
    then: str | list[str | _Structure] | _Structure = msgspec.field(name="Then")
    otherwise: str | list[str | _Structure] | _Structure = msgspec.field(name="Else", default_factory=list)


class IRContainerSpec(ExecutorContainerSpec, frozen=True, kw_only=True):
    """A container of the IR. The constructor raises ComponentError if a placeholder is not supported.

    - `artifacts` has the types of the inputs and outputs that are artifacts.
    - `values` names the outputs that are values (output parameters).
    - `contents` names the inputs whose content a placeholder can request.
    - With `old_schema` (schema 2.0.0), the program also gets its parameters in the form `{"intValue": "1"}`.

    A program of `preCacheCheck` runs before the program of its task, and has a single output: a report. `report` is the
    name of this output, and `planned` names the artifacts that the program of the task will make. For any other
    program, `report` and `planned` are empty.
    """

    task: str
    parameters: tuple[str, ...] = ()
    artifacts: Mapping[str, Json] = {}
    values: tuple[str, ...] = ()
    contents: tuple[str, ...] = ()
    old_schema: bool = False
    report: str = ""
    planned: tuple[str, ...] = ()

    knows_files_only: ClassVar[bool] = True

    @property
    def reads_own_report(self) -> bool:
        """Whether the program, when it starts, reads an existing `output.json`, the file for its results.

        TFX's program (`--json_serialized_invocation_args`) reads this file, because TFX's program of `preCacheCheck`
        runs earlier and can write this file.
        """
        return _TFX_OPTION in self.args and not self.report

    def __post_init__(self) -> None:
        super().__post_init__()
        for word in (*self.command, *self.args):
            plain = _structure(word)
            text = plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
            for match in PLACEHOLDER.finditer(text):
                self._value(match, _NOTHING)

    def words(
        self,
        inputs: ArtifactDict,
        outputs: ArtifactDict,
        properties: Mapping[str, Any],
        places: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[list[str], list[str]]:
        """Return the command and the arguments with the values of their placeholders.

        Text in a value that looks like a placeholder is not replaced. `places` maps the URI of an artifact in an object
        store to its path in the container. Raises ComponentError if an argument is too long for Linux or contains NUL.
        """
        remote = {path: uri for uri, path in places.items()}
        contents = {name: inputs[name][0].properties.get("value") for name in self.contents if inputs.get(name)}
        inputs, outputs = (
            {
                name: [
                    msgspec.structs.replace(artifact, uri=places.get(artifact.uri, artifact.uri)) for artifact in these
                ]
                for name, these in side.items()
            }
            for side in (inputs, outputs)
        )
        values = {k: v for k, v in properties.items() if k != TMP_PATH}
        parameter_fields = {"parameterValues": values} | (
            {"parameters": typed_parameters(values)} if self.old_schema else {}
        )
        place = outputs[self.report][0].uri if self.report else f"{properties[TMP_PATH]}/{OUTPUT_FILE}"
        if self.report:  # the program of `preCacheCheck` sees the outputs of its task, and not its own output
            outputs = {name: [Artifact("")] for name in self.planned}
        files = {name: {"outputFile": outputs[name][0].uri} for name in self.values}
        whole = {
            "inputs": {**parameter_fields, "artifacts": self._lists(inputs, remote)},
            "outputs": {"parameters": files, "artifacts": self._lists(outputs, remote), "outputFile": place},
        }

        def replaced(match: re.Match[str]) -> str:
            value = self._value(match, whole, contents)
            return rendered_value(remote.get(value, value) if match["path"].endswith("].uri") else value)

        def words(given: str | Sequence[str | _Structure] | _Structure) -> Iterator[str]:
            if isinstance(given, str):
                yield PLACEHOLDER.sub(replaced, given)
            elif not isinstance(given, _Structure):
                for part in given:
                    yield from words(part)
            elif (choice := given.chosen) is not None:
                given_names = {*properties, *(name for name, artifacts in inputs.items() if artifacts)}
                yield from words(choice.then if choice.name in given_names else choice.otherwise)
            else:
                yield "".join(words(given.joined or ()))

        command, args = ([*words([_structure(text) for text in side])] for side in (self.command, self.args))
        for word in (*command, *args):
            if len(word.encode()) >= _MAX_WORD or "\0" in word:
                raise ComponentError(
                    f"component {self.task}: an argument must have fewer than {_MAX_WORD} bytes, and no NUL"
                )
        return command, args

    def _lists(self, given: ArtifactDict, remote: Mapping[str, str]) -> Json:
        return {
            name: {"artifacts": self._described(name, given[name], remote)} for name in given if name in self.artifacts
        }

    def _described(self, name: str, given: Sequence[Artifact], remote: Mapping[str, str]) -> list[Json]:
        """Return artifacts as members of the JSON that a program gets (`executor_input`), without their content.

        TFX's programs, whose artifact types have an `instanceSchema`, distinguish artifacts by `name`. So for these
        programs, each name must be unique, and the URI of an artifact is its name. `remote` maps the path of an
        artifact in the container to its URI in an object store.
        """
        kind = self.artifacts[name]
        unique = "instanceSchema" in kind
        return [
            {
                "name": (remote.get(artifact.uri, artifact.uri) or name) if unique else name,
                "type": kind,
                "uri": artifact.uri,
                "metadata": {key: value for key, value in artifact.properties.items() if not unique or key != "value"},
            }
            for artifact in given
        ]

    def _value(
        self, placeholder: re.Match[str], whole: Json, contents: Mapping[str, Any] = MappingProxyType({})
    ) -> Any:
        """Return the value of a placeholder.

        `whole` is the JSON for `{{$}}`: all inputs and outputs. `contents` has the contents of inputs that are values.
        Raises ComponentError if the placeholder is not supported.
        """
        path = placeholder["path"]
        match None if _KEY.sub("", path) else [name or key for name, key in _KEY.findall(path)]:
            case []:
                return whole
            case ["outputs", "output_file"] | ["outputMetadataUri"]:
                return whole["outputs"].get("outputFile")
            case ["inputs", "parameters", name] if name in self.parameters:
                return whole["inputs"]["parameterValues"].get(name)
            case ["inputs" | "outputs" as side, "artifacts", name] if name in self.artifacts:
                return whole[side]["artifacts"].get(name, {"artifacts": []})["artifacts"]
            case ["outputs", "parameters", name, "output_file"] if name in self.values:
                return whole["outputs"]["parameters"].get(name, {}).get("outputFile")
            case ["inputs", "artifacts", name, "value"] if name in self.contents:
                return contents.get(name)
            case ["inputs" | "outputs" as side, "artifacts", name, field, *key] if (
                name in self.artifacts and field in _FIELDS and len(key) <= (field == "metadata")
            ):
                artifacts = whole[side]["artifacts"].get(name, {"artifacts": []})["artifacts"]
                value = artifacts[0][_FIELDS[field]] if artifacts else None
                return value.get(key[0]) if key and isinstance(value, dict) else value
        raise ComponentError(f"component {self.task}: {placeholder[0]} is not a placeholder that is supported here")


def _structure(word: str) -> str | _Structure:
    """Return an argument of a command. If it is the JSON of `Concat` or `IfPresent`, return it decoded.

    Raises ComponentError if the JSON has unknown fields.
    """
    if not word.startswith(('{"Concat":', '{"IfPresent":')):
        return word
    try:
        structure = msgspec.json.decode(word, type=_Structure)
        if reaches(msgspec.json.decode(word), _MAX_DEPTH):  # `words` calls itself for each level
            raise ComponentError(f"{word[:100]!r} has {_MAX_DEPTH} or more levels of nesting")
        return structure
    except UNDECODABLE as error:
        raise ComponentError(f"{word[:100]!r} is not a placeholder that is supported here: {error}") from None


def configs_of(label: str, container: Json, ours: Json) -> dict[str, PlatformConfig]:
    """Return the config of an executor for each platform: `docker`, `process` and `kubernetes`.

    `label` is the executor's name, and `container` describes the executor's container in the IR. `ours` is the
    executor's part of `platforms.tfoperator` in the second document of the pipeline's file. `ours` has the form of
    `platforms` in component.yaml, and overrides the settings of `container`. Raises ComponentError if the resources or
    the settings in `ours` are invalid.
    """
    variables = {variable.get("name", ""): variable.get("value", "") for variable in container.get("env", ())}
    resources = resources_of(f"executors.{label}.container.resources", container.get("resources", {}))
    environment = [{"name": name, "value": verbatim(value)} for name, value in variables.items()]
    pod = {"containers": [{**resources.pod, "env": environment}]}
    made: dict[str, PlatformConfig] = {
        "docker": DockerPlatformConfig(environment=variables, **resources.docker),
        "process": ProcessPlatformConfig(variables),
        "kubernetes": KubernetesPodPlatformConfig(pod),
    }
    try:
        given = platform_configs(msgspec.convert(ours, Platforms))
    except msgspec.ValidationError as error:
        raise ComponentError(f"platforms.tfoperator.deploymentSpec.executors.{label}: {error}") from None
    for config in given:
        if isinstance(config, TFJobPlatformConfig):
            made["kubernetes"] = TFJobPlatformConfig(pod_spec=pod)
        for platform, base in made.items():
            made[platform] = base.merge(config) if type(base) is type(config) else base
    return made


def retry_of(where: str, given: Json | None) -> RetryPolicy | None:
    """Return the `retryPolicy` of a task as our RetryPolicy, which retries after any failure.

    Return None if the task has no `retryPolicy`. Raises ComponentError if a field has an invalid value.
    """
    if given is None:
        return None
    seconds = []
    for field, default in (("backoffDuration", "0s"), ("backoffMaxDuration", "3600s")):
        if (match := _SECONDS.fullmatch(given.get(field, default))) is None:
            raise ComponentError(
                f"{where}.retryPolicy.{field}: must be a number of seconds, such as 5s, but is {given[field]!r}"
            )
        seconds.append(float(match[1]))
    attempts, factor = given.get("maxRetryCount", 0) + 1, given.get("backoffFactor") or 2.0
    return RetryPolicy(attempts, seconds[0], seconds[1], 0.0, factor=factor, any_failure=True)
