"""Helpers for reading the tasks of Kubeflow Pipelines: outputs, order, constants with placeholders, and conditions.

A condition is an expression in CEL (Common Expression Language), such as `inputs.parameter_values['n'] > 3 && !...`.
Its operators are replaced by Python's operators, and then `ast.parse` reads the text. The text never runs as code. `!`
becomes `~`, which binds as tightly as `!` in CEL. Python's `not` would bind less tightly.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from typing import Any

import msgspec

from tfoperator.base.files import local_path
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.launcher import Artifact, ComponentError
from tfoperator.launcher.container.templates import rendered_value
from tfoperator.launcher.core.component import Json
from tfoperator.pipeline.dsl.standard_artifacts import VALUES
from tfoperator.pipeline.graph import FromOutside, Source, names_in_order
from tfoperator.pipeline.kfp.container import PLACEHOLDER
from tfoperator.pipeline.store.database import is_name
from tfoperator.pipeline.values import RUN, STATUS, WORKSPACE, Value

_TYPES = {
    "NUMBER_INTEGER": ("Integer", 0),
    "NUMBER_DOUBLE": ("Float", 0.0),
    "STRING": ("String", ""),
    "BOOLEAN": ("Boolean", False),
    "LIST": ("JsonValue", []),
    "STRUCT": ("JsonValue", {}),
    "TASK_FINAL_STATUS": ("JsonValue", {}),
}
"""For each type of parameters in the IR: the type of artifacts that we use for its values, and an example value."""
_TITLE = re.compile(r"^title: *['\"]?([\w.-]{1,255})", re.MULTILINE)
_INPUT = re.compile(r"\.inputs\.parameters\['([^']+)'\]")
_FOREIGN = re.compile(r"'[^']*'|&&|\|\||!(?!=)|\b(?:true|false)\b|[#~\\\"]")
_SIGNS = {"&&": " and ", "||": " or ", "!": "~", "true": "True", "false": "False"}
_OPERATIONS = {"And": "&&", "Or": "||", "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">="}
_MAX_TEXT = 20_000
_MAX_DEPTH = 100
"""The maximum number of levels of operators in a condition."""
_FACTS = {
    ".pipeline_job_name": "name",
    ".pipeline_job_resource_name": "name",
    ".pipeline_job_uuid": "id",
    ".pipeline_task_uuid": "task",
    ".pipeline_root": "root",
    ".pipeline_job_create_time_utc": "began",
    ".pipeline_job_schedule_time_utc": "began",
    ".workspace_path": WORKSPACE,
}
"""For each path in a placeholder, such as `{{$.pipeline_job_uuid}}`: the fact of our run that replaces the placeholder.
"""
_TEXT = object()


class Made(msgspec.Struct, frozen=True):
    """A task that was read: the names of the steps that were made from it, and the sources of its outputs.

    `last` names the steps that must end before a dependent task starts. If no step was made from the task (an importer
    becomes no step), these are the steps that must end before the task itself.
    """

    steps: tuple[str, ...]
    parameters: Mapping[str, Any] = {}
    artifacts: Mapping[str, Source] = {}
    last: tuple[str, ...] = ()


def imported(where: str, importer: Json, parameters: Mapping[str, Any], output: str) -> Made:
    """Return the result of an importer, a task that names an artifact which exists already.

    Other tasks read the artifact from its URI, so the importer becomes no step. `output` is the name of the importer's
    output.
    """
    uri = importer.get("artifactUri", {})
    metadata = with_inputs(f"{where}.importer.metadata", importer.get("metadata", {}), parameters)
    name = uri.get("runtimeParameter")
    place = with_inputs(where, uri.get("constant"), parameters) if name is None else member(where, parameters, name)
    if place is None or place == "":
        raise ComponentError(f"{where}.importer.artifactUri: must have a value")
    properties = metadata if isinstance(metadata, dict) else {}
    made = metadata if isinstance(metadata, Value) else None
    return Made(
        (), {}, {output: FromOutside(kind_of(importer, "typeSchema"), (Artifact("", properties),), place, made)}
    )


def given_artifact(where: str, one: Json, text: str) -> FromOutside:
    """Return an artifact that the user gives to a pipeline by its URI, `text`.

    A path of this machine becomes absolute, because programs run in another folder and can't open `file://` URLs. `one`
    is the definition of the pipeline's input in the IR. If it defines a list of artifacts, `text` is a JSON list
    of URIs. Raises ComponentError if a URI is empty, or if the text is not such a list.
    """
    uris = [text]
    if one.get("isArtifactList"):
        try:
            uris = msgspec.json.decode(text, type=list[str])
        except UNDECODABLE:
            raise ComponentError(f"{where} is a list of artifacts: its value must be a list of URIs, as JSON") from None
    if "" in uris:
        raise ComponentError(f"{where}: must have a URI")
    paths = map(local_path, uris)
    places = [uri if path is None else str(path.absolute()) for uri, path in zip(uris, paths, strict=True)]
    return FromOutside(kind_of(one, "artifactType"), tuple(map(Artifact, places)))


def kind_of(one: Json, field: str) -> str:
    """Return the name of an artifact's type. It is the title of the schema in `one[field]`, such as `system.Model`.

    `one` is the definition of the artifact in the IR. The default is `system.Artifact`.
    """
    schema = one.get(field, {})
    if "schemaTitle" in schema:
        return own_type(str(schema["schemaTitle"]))
    match = _TITLE.search(schema.get("instanceSchema", "")[:_MAX_TEXT])
    return own_type(match[1]) if match else "system.Artifact"


def own_type(title: str) -> str:
    """Return the name of the type for this title of a schema.

    TFX's types of values become ours: `tfx.Integer` becomes `Integer`. Raises ComponentError if the title is not a
    valid name of a type.
    """
    if not is_name(title):
        raise ComponentError(
            f"{title[:40]!r} is not a valid name of a type of artifacts: it may have at most 255 characters of "
            "Unicode, and no NUL"
        )
    return title.removeprefix("tfx.") if title.removeprefix("tfx.") in VALUES else title


def final_status(task: str, steps: tuple[str, ...]) -> Value:
    """Return a `Value` for how a task ended: the JSON of Kubeflow Pipelines' `PipelineTaskFinalStatus`."""
    ended = Value(STATUS, steps)
    fields = {
        "state": Value("get", (ended, "state")),
        "pipelineTaskName": task,
        "pipelineJobResourceName": Value(RUN, ("name",)),
        "error": Value("get", (ended, "error")),
    }
    return Value("object", tuple([part for field in fields.items() for part in field]))


def in_turn(scope: str, tasks: Mapping[str, Json]) -> list[str]:
    """Return the names of tasks in an order in which each task comes after the tasks that it names.

    A task names the producers of its inputs, and its `dependentTasks`. Raises ComponentError for an unknown task or a
    cycle.
    """
    before: dict[str, set[str]] = {}
    for name, task in tasks.items():
        before[name] = set(task.get("dependentTasks", ()))
        for task_input in (entry for side in task.get("inputs", {}).values() for entry in side.values()):
            for source in ("taskOutputParameter", "taskOutputArtifact", "taskFinalStatus"):
                before[name] |= {task_input[source].get("producerTask", "")} if source in task_input else set()
        if unknown := sorted(before[name] - tasks.keys()):
            raise ComponentError(f"{scope or 'root'}.{name}: refers to the task {unknown[0]!r}, which does not exist")
    return names_in_order(scope or "root", before)


def output_of(where: str, source: Json, made: Mapping[str, Made], side: str) -> Any:
    """Return the output of a task that `source` names. `side` is `parameters` or `artifacts`.

    `made` has the tasks that were read, by name. Raises ComponentError if the task has no such output.
    """
    key = source.get("outputParameterKey" if side == "parameters" else "outputArtifactKey", "")
    producer = source.get("producerTask", source.get("producerSubtask", ""))
    outputs: Mapping[str, Any] = getattr(made.get(str(producer)), side, {})
    return member(f"{where}: what {producer} puts out", outputs, key)


def chosen_output(where: str, chosen: Json, made: Mapping[str, Made]) -> Any:
    """Return an output of a DAG (a nested pipeline): the output of a task in it.

    If `chosen` names several tasks (`dsl.OneOf`), return the output of the first task that is not skipped.
    """
    selectors = chosen.get("valueFromOneof", {}).get("parameterSelectors", chosen.get("artifactSelectors", ()))
    side = "artifacts" if "artifactSelectors" in chosen else "parameters"
    if "valueFromParameter" in chosen:
        selectors = [chosen["valueFromParameter"]]
    outputs = [output_of(where, selector, made, side) for selector in selectors]
    return outputs[0] if len(outputs) == 1 else Value("first", tuple([as_value(where, output) for output in outputs]))


def as_value(where: str, source: Any) -> Any:
    """Return `source` if it is the output of a step. Raises ComponentError if it is the artifact of an importer."""
    if isinstance(source, FromOutside):
        raise ComponentError(
            f"{where}: the artifact of an importer can only be the input of a step, not a part of dsl.OneOf, of a list "
            "or of a loop"
        )
    return source


def member(where: str, known: Mapping[str, Any], name: str, what: str = "") -> Any:
    """Return `known[name]`. Raises ComponentError if the name is not known.

    `what` is the text before the name in the message, for example the kind of the missing thing.
    """
    if name not in known:
        raise ComponentError(f"{where}: there is no {what}{name!r}")
    return known[name]


def definitions_of(component: Json, side: str, kind: str) -> dict[str, Json]:
    """Return the definitions in a component of the IR, by name.

    `side` is `input` or `output`. `kind` is `parameters` or `artifacts`.
    """
    definitions: dict[str, Json] = component.get(f"{side}Definitions", {}).get(kind, {})
    return definitions


def type_of(where: str, one: Json) -> tuple[str, Any]:
    """Return our type of artifacts for the type of a parameter in the IR, and an example of a value (`_TYPES`).

    Raises ComponentError for an unknown type.
    """
    if (kind := one.get("parameterType", "STRING")) not in _TYPES:
        raise ComponentError(f"{where}.parameterType: {kind} is not supported here")
    return _TYPES[kind]


def typed(one: Json, value: Any) -> Any:
    """Return the value of a parameter, as an int if the parameter is an integer.

    The JSON of the IR can have the floating-point number 3.0 for the integer 3.
    """
    whole = one.get("parameterType") == "NUMBER_INTEGER" and isinstance(value, float) and value.is_integer()
    return int(value) if whole else value


def fits(value: Any, example: Any) -> bool:
    """Return whether a value has the same type as an example. An integer also counts as a floating-point number."""
    wanted = (int, float) if isinstance(example, float) else type(example)
    return isinstance(value, wanted) and (isinstance(value, bool) == isinstance(example, bool))


def with_inputs(where: str, value: Any, known: Mapping[str, Any], task: str = "") -> Any:
    """Return a constant with values in place of its placeholders, such as `{{$.inputs.parameters['rate']}}`.

    `known` has the parameters, and `task` is the name of the task (`{{$.pipeline_task_name}}`). Each placeholder is
    replaced once: a placeholder in a parameter's value stays. In lists and structures, the values and the names of
    members are processed. The result is a `Value` if it contains a `Value`.
    """
    of = partial(with_inputs, where, known=known, task=task)
    if isinstance(value, list):
        items = list(map(of, value))
        return Value("list", tuple(items)) if _has_value(items) else items
    if isinstance(value, dict):
        members = [part for pair in value.items() for part in map(of, pair)]
        if _has_value(members):
            return Value("object", tuple(members))
        return {rendered_value(key): item for key, item in zip(members[::2], members[1::2], strict=True)}
    if not isinstance(value, str):
        return value
    parts: list[Any] = []
    at = 0
    for match in PLACEHOLDER.finditer(value):
        if (replacement := _named(where, match, known, task)) is not _TEXT:
            parts += [value[at : match.start()], replacement]
            at = match.end()
    parts = [part for part in (*parts, value[at:]) if part != ""] if parts else [value]
    return parts[0] if len(parts) == 1 else Value("text", tuple(parts))


def as_late(value: Any) -> Any:
    """Return a list or structure as a `Value` if it contains a `Value`. Return anything else unchanged."""
    if isinstance(value, list):
        items = list(map(as_late, value))
        return Value("list", tuple(items)) if _has_value(items) else items
    if isinstance(value, dict):
        members = {key: as_late(member) for key, member in value.items()}
        return (
            Value("object", tuple([part for pair in members.items() for part in pair]))
            if _has_value(members.values())
            else members
        )
    return value


def _named(where: str, placeholder: re.Match[str], parameters: Mapping[str, Any], task: str) -> Any:
    """Return the value of a placeholder for a parameter or for a fact of the run, such as its id.

    For any other placeholder, return _TEXT: the placeholder stays in the constant. Raises ComponentError for an
    unknown fact of the run.
    """
    path = placeholder["path"]
    if (name := _INPUT.fullmatch(path)) is not None:
        return member(where, parameters, name[1])
    if path == ".pipeline_task_name" and task:
        return task
    if (fact := _FACTS.get(path)) is not None:
        return Value(RUN, (fact,))
    if path.startswith((".pipeline_", ".workspace")):
        raise ComponentError(f"{where}: {placeholder[0][:200]} is not supported here")
    return _TEXT


def _has_value(parts: Iterable[Any]) -> bool:
    return any(isinstance(part, Value) for part in parts)


class Named(msgspec.Struct, frozen=True):
    """Two functions for the inputs that a condition names: the value of a parameter, and the source of an artifact."""

    parameter: Callable[[str], Any]
    artifact: Callable[[str], Any]


def read_condition(text: str, inputs: Named) -> Any:
    """Return the `Value` for the text of a condition in CEL. The `Value` refers to the inputs that the condition names.

    Raises ComponentError if the text uses a part of CEL that is not supported.
    """

    def ours(match: re.Match[str]) -> str:
        token = match[0]
        return repr(token[1:-1]) if token[0] == "'" else _SIGNS.get(token, "?")

    try:
        if len(text) > _MAX_TEXT:
            raise ValueError(f"the text has more than {_MAX_TEXT} characters")
        return _value(ast.parse(_FOREIGN.sub(ours, text).strip(), mode="eval").body, inputs)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ComponentError(f"condition {text[:200]!r} can't be read: {error}") from None


def _value(node: ast.AST, inputs: Named, depth: int = 0) -> Any:
    of = partial(_value, inputs=inputs, depth=depth + 1)
    operands = len(node.values) if isinstance(node, ast.BoolOp) else 0  # each of them adds a level to the `Value`
    if depth + operands > _MAX_DEPTH:
        raise ValueError(f"it has more than {_MAX_DEPTH} levels of operators")
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as constant):
            return constant
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.UnaryOp(op=ast.Invert()):
            return Value("!", (of(node.operand),))
        case ast.BoolOp():
            op = _OPERATIONS[type(node.op).__name__]
            return reduce(lambda joined, other: Value(op, (joined, other)), map(of, node.values))
        case ast.Compare(ops=[sign], comparators=[right]) if op := _OPERATIONS.get(type(sign).__name__, ""):
            return Value(op, (of(node.left), of(right)))
        case ast.Call(func=ast.Name(id="int" | "double" as name), args=[argument], keywords=[]):
            return Value(name, (of(argument),))
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id="inputs"), attr="parameter_values"),
            slice=ast.Constant(value=str() as key),
        ):
            return inputs.parameter(key)
        case ast.Attribute(value=artifact, attr="uri"):
            return Value("uri", _artifact(artifact, inputs))
        case ast.Subscript(
            value=ast.Attribute(value=artifact, attr="metadata"), slice=ast.Constant(value=str() as key)
        ):
            return Value("property", (*_artifact(artifact, inputs), key))
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return Value("text", (of(left), of(right)))
    raise ValueError(f"{type(node).__name__} is not supported in it")


def _artifact(node: ast.AST, inputs: Named) -> tuple[Any, int]:
    """Return the source of an input's artifact, and the artifact's index in the input.

    An example of `node` is the syntax tree of `inputs.artifacts['data'].artifacts[0]`. Raises ValueError for any other
    form of `node`.
    """
    match node:
        case ast.Subscript(
            value=ast.Attribute(
                value=ast.Subscript(
                    value=ast.Attribute(value=ast.Name(id="inputs"), attr="artifacts"),
                    slice=ast.Constant(value=str() as key),
                ),
                attr="artifacts",
            ),
            slice=ast.Constant(value=int() as number),
        ) if number >= 0 and not isinstance(number, bool):
            return inputs.artifact(key), number
    raise ValueError(f"{type(node).__name__} is not supported in it")
