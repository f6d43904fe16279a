"""Reads the inputs of a task in an IR: its parameters, its artifacts, and the items of its loops."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.launcher import ComponentError
from tfoperator.launcher.core.component import Json
from tfoperator.pipeline.graph import Loop, Source, Step
from tfoperator.pipeline.kfp.parts import (
    Made,
    as_value,
    definitions_of,
    final_status,
    member,
    output_of,
    typed,
    with_inputs,
)
from tfoperator.pipeline.values import ITEM, Value

_MEMBER = re.compile(r'parseJson\(string_value\)((?:\["[^"\]]+"\])+)')


def parameters_of(
    where: str, name: str, task: Json, component: Json, scope: Step, made: Mapping[str, Made]
) -> dict[str, Any]:
    """Return the parameters of a task by name.

    `scope` is the DAG around the task, and `made` has the tasks that were read before. Parameters that the component
    does not define are included: placeholders in constants of the task can name them. Raises ComponentError if a
    required parameter has no value, or if the source of a parameter does not exist.
    """
    definitions = definitions_of(component, "input", "parameters")
    given = task.get("inputs", {}).get("parameters", {})
    item = task.get("parameterIterator", {}).get("itemInput")
    parameters = {key: parameter_of(f"{where}: {key}", source, scope, made) for key, source in given.items()}
    for key, definition in definitions.items():
        default, value, optional = (
            typed(definition, definition.get("defaultValue")),
            parameters.get(key),
            definition.get("isOptional"),
        )
        if isinstance(value, Value) and (default is not None or optional):
            value = Value("first", (value, default))
        parameters[key] = typed(definition, default if value is None else value)
        if "taskFinalStatus" in given.get(key, {}) and definition.get("parameterType") == "STRING":
            parameters[key] = Value("text", (parameters[key],))
        if parameters[key] is None and not optional and key != item:
            raise ComponentError(f"{where}: its parameter {key!r} is missing")
    for key, source in given.items():
        if "runtimeValue" in source:
            parameters[key] = with_inputs(f"{where}: {key}", parameters[key], parameters, name)
    return parameters


def parameter_of(where: str, given: Json, scope: Step, made: Mapping[str, Made]) -> Any:
    """Return the value of a parameter from the description of its source in the IR.

    The source is an output or the final status of a task in `made`, a parameter of the DAG `scope`, or a constant. The
    result is a `Value` if it is known only when the pipeline runs. Raises ComponentError if the source does not exist,
    or if its `parameterExpressionSelector` is not supported.
    """
    if (source := given.get("taskOutputParameter")) is not None:
        value = output_of(where, source, made, "parameters")
    elif (source := given.get("taskFinalStatus")) is not None:
        producer = source.get("producerTask", "")
        value = final_status(producer, member(where, made, producer, "task ").steps)
    elif (name := given.get("componentInputParameter")) is not None:
        value = member(where, scope.exec_properties, name)
    else:
        value = given.get("runtimeValue", {}).get("constant")
    selector = given.get("parameterExpressionSelector")
    if selector is None:
        return value
    if (match := _MEMBER.fullmatch(selector)) is None:
        raise ComponentError(f"{where}.parameterExpressionSelector: {selector[:100]!r} is not supported here")
    for key in re.findall(r'\["([^"\]]+)"\]', match[1]):
        value = Value("get", (value, key))
    return value


def artifacts_of(where: str, task: Json, component: Json, scope: Step, made: Mapping[str, Made]) -> dict[str, Source]:
    """Return the input artifacts of a task by name: outputs of tasks in `made`, or inputs of the DAG `scope`.

    An optional input will be empty if the task that makes its artifact was skipped or has failed.
    """
    artifacts: dict[str, Source] = {}
    definitions = definitions_of(component, "input", "artifacts")
    for key, given in task.get("inputs", {}).get("artifacts", {}).items():
        if (source := given.get("taskOutputArtifact")) is not None:
            artifacts[key] = output_of(where, source, made, "artifacts")
        elif (inherited := scope.inputs.get(given.get("componentInputArtifact", ""))) is not None:
            artifacts[key] = inherited
        if definitions.get(key, {}).get("isOptional") and isinstance(artifacts.get(key), Value):
            # The input is empty if the task that makes the artifact was skipped or has failed.
            artifacts[key] = Value("first", (artifacts[key], None))
    return artifacts


def conditional_artifact(where: str, task: Json, inputs: Mapping[str, Source], name: str) -> Value:
    """Return the source of the artifact `name` in a condition of a task.

    `name` is an input of the task, or has the form `_PRODUCER.OUTPUT`, with the names of a task and its output.
    """
    for key, given in task.get("inputs", {}).get("artifacts", {}).items():
        source = given.get("taskOutputArtifact", {})
        if name == f"_{source.get('producerTask')}.{source.get('outputArtifactKey')}" and name not in inputs:
            name = key
    value: Value = as_value(where, member(where, inputs, name))
    return value


def loops_of(
    where: str, task: Json, scope: Step, parameters: dict[str, Any], inputs: dict[str, Source]
) -> tuple[Loop, ...]:
    """Return the loops that contain a task, the outermost first.

    If the task has an iterator, its own loop is the last. In this case, the function also adds the current item of this
    loop to `parameters` or `inputs`.
    """
    limit = task.get("iteratorPolicy", {}).get("parallelismLimit", 0)
    if (iterator := task.get("parameterIterator")) is not None:
        items = iterator.get("items", {})
        try:
            plain = msgspec.json.decode(items.get("raw") or "null")
        except UNDECODABLE as error:
            raise ComponentError(f"{where}.parameterIterator.items.raw: {error}") from None
        if plain is None and (plain := parameters.get(items.get("inputParameter", ""))) is None:
            raise ComponentError(f"{where}.parameterIterator.items: must have a value")
        parameters[iterator.get("itemInput", "")] = Value(ITEM, (where,))
    elif (iterator := task.get("artifactIterator")) is not None:
        place = f"{where}.artifactIterator.items"
        listed = as_value(place, member(place, inputs, iterator.get("items", {}).get("inputArtifact", "")))
        plain = Value("positions", (Value("artifacts", (listed,)),))
        inputs[iterator.get("itemInput", "")] = Value("at", (listed, Value(ITEM, (where,))))
    else:
        return scope.loops
    return (*scope.loops, Loop(where, plain, limit))
