"""Converts TFX's PipelineJobs, and pipelines of schema 2.0.0, to pipelines of schema 2.1.0, which `reading` reads.

TFX's `KubeflowV2DagRunner` writes a PipelineJob: the pipeline, together with the settings of one run. Unless the user
requests schema 2.1.0, TFX writes parameters and constants in the spelling of 2.0.0, such as `type: INT` in place of
`parameterType: NUMBER_INTEGER`. The module does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.launcher import ComponentError
from tfoperator.launcher.core.component import Json
from tfoperator.pipeline.kfp.spec import JOB, PIPELINE, check

OLD_SCHEMA = "2.0.0"
"""The version of the schema in which programs get each parameter together with its type, such as
`{"intValue": "1"}`.
"""
_OLD_TYPES = {"INT": "NUMBER_INTEGER", "DOUBLE": "NUMBER_DOUBLE", "STRING": "STRING"}
_INTEGER = re.compile(r"-?\d{1,19}")
_SUFFIX = "_task"
"""An ending of names: TFX writes `producerTask: trainer_task` for a parameter that comes from the task `trainer`."""


class JobSettings(msgspec.Struct, frozen=True):
    """The settings for a run that a file contains: the place of the outputs, and the values of parameters."""

    root: str = ""
    values: Mapping[str, Any] = {}


def pipeline_and_settings(document: Any) -> tuple[Json, JobSettings]:
    """Return the checked pipeline of a document, in the spellings of schema 2.1.0, and the settings of its run.

    Raises ComponentError if a field is not supported, or if a value has a wrong form.
    """
    settings, pipeline = JobSettings(), document
    if isinstance(document, dict) and "pipelineSpec" in document:
        check("pipeline job", document, JOB)
        pipeline, config = document["pipelineSpec"], document.get("runtimeConfig", {})
        old = {
            name: _old_value(f"runtimeConfig.parameters.{name}", constant)
            for name, constant in _of(config, "parameters")
        }
        settings = JobSettings(config.get("gcsOutputDirectory", ""), old | config.get("parameterValues", {}))
    check("pipeline", pipeline, PIPELINE)
    components = {name: _component(name, component) for name, component in _of(pipeline, "components")}
    executors = {
        name: _executor(name, executor) for name, executor in _of(pipeline.get("deploymentSpec", {}), "executors")
    }
    root = _component("root", pipeline.get("root", {}))
    return {**pipeline, "root": root, "components": components, "deploymentSpec": {"executors": executors}}, settings


def typed_parameters(values: Mapping[str, Any]) -> Json:
    """Return the values of parameters in the form of schema 2.0.0, each with its type: `{"n": {"intValue": "1"}}`."""
    return {name: _typed(value) for name, value in values.items()}


def _typed(value: Any) -> Json:
    if isinstance(value, int):  # also a bool: True becomes 1
        return {"intValue": str(int(value))}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value if isinstance(value, str) else msgspec.json.encode(value).decode()}


def _of(document: Json, field: str) -> list[tuple[str, Any]]:
    return list(document.get(field, {}).items())


def _old_value(where: str, given: Json) -> Any:
    """Return the value of a constant of schema 2.0.0, such as 1 for `{"intValue": "1"}`.

    Raises ComponentError if the constant has several values, or if its `intValue` is not an integer.
    """
    if len(given) > 1:
        raise ComponentError(f"{where}: must have only one value, but has {', '.join(given)}")
    value = next(iter(given.values()), None)
    if "intValue" not in given:
        return value
    if isinstance(value, bool) or not _INTEGER.fullmatch(str(value)):
        raise ComponentError(f"{where}.intValue: must be an integer, but is {value!r:.60}")
    return int(str(value))


def _constant(where: str, given: Json) -> Json:
    """Return a constant with the field `constant` of schema 2.1.0 in place of `constantValue` of schema 2.0.0."""
    if "constantValue" not in given:
        return given
    others = {name: value for name, value in given.items() if name != "constantValue"}
    return {"constant": _old_value(f"{where}.constantValue", given["constantValue"]), **others}


def _component(name: str, component: Json) -> Json:
    made = dict(component)
    for side in ("inputDefinitions", "outputDefinitions"):
        if side in component:
            parameters = {key: _parameter(parameter) for key, parameter in _of(component[side], "parameters")}
            made[side] = {**component[side], "parameters": parameters}
    if "dag" in component:
        tasks = component["dag"].get("tasks", {})
        made["dag"] = {
            **component["dag"],
            "tasks": {key: _task(f"{name}.{key}", task, tasks) for key, task in tasks.items()},
        }
    return made


def _parameter(parameter: Json) -> Json:
    others = {name: value for name, value in parameter.items() if name != "type"}
    old = parameter.get("type")
    return others if old is None else {"parameterType": _OLD_TYPES.get(old, old), **others}


def _task(where: str, task: Json, tasks: Json) -> Json:
    inputs = task.get("inputs", {})
    if "parameters" not in inputs:
        return task
    parameters = {
        key: _given(f"{where}.inputs.parameters.{key}", parameter, tasks)
        for key, parameter in _of(inputs, "parameters")
    }
    return {**task, "inputs": {**inputs, "parameters": parameters}}


def _given(where: str, given: Json, tasks: Json) -> Json:
    made = dict(given)
    if "runtimeValue" in given:
        made["runtimeValue"] = _constant(f"{where}.runtimeValue", given["runtimeValue"])
    source = given.get("taskOutputParameter", {})
    producer = source.get("producerTask", "")
    if producer not in tasks and producer.removesuffix(_SUFFIX) in tasks:
        made["taskOutputParameter"] = {**source, "producerTask": producer.removesuffix(_SUFFIX)}
    return made


def _executor(label: str, executor: Json) -> Json:
    importer = executor.get("importer", {})
    if "artifactUri" not in importer:
        return executor
    uri = _constant(f"executors.{label}.importer.artifactUri", importer["artifactUri"])
    if not isinstance(uri.get("constant", ""), str):
        raise ComponentError(f"executors.{label}.importer.artifactUri: must be text, but is {uri['constant']!r:.60}")
    return {**executor, "importer": {**importer, "artifactUri": uri}}
