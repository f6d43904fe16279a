"""The fields of the IR (the YAML that Kubeflow's SDK compiles) that this package supports.

Any other field is an error. The message of the error contains the path of the field, such as `pipeline.root.dag`.
"""

from __future__ import annotations

from typing import Any

from tfoperator.launcher import ComponentError

_EACH = "*"
"""A key that stands for any name. For example, the form `{"*": str}` allows members with any names, whose values are
texts (see `check`).
"""
_NAMED = {"name": str, "displayName": str, "description": str}
_TYPE = {"schemaTitle": str, "schemaVersion": str, "instanceSchema": str}
_OLD_VALUE = {"stringValue": str, "intValue": object, "doubleValue": float}
_PARAMETER = {
    "parameterType": str,
    "type": str,
    "defaultValue": object,
    "isOptional": bool,
    "description": str,
    "literals": [object],
}
_ARTIFACT = {"artifactType": _TYPE, "isArtifactList": bool, "isOptional": bool, "description": str, "metadata": dict}
_INTERFACE = {"parameters": {_EACH: _PARAMETER}, "artifacts": {_EACH: _ARTIFACT}}
_CONSTANT = {"constant": str, "constantValue": _OLD_VALUE, "runtimeParameter": str}
_FROM_TASK = {"producerTask": str, "outputParameterKey": str, "outputArtifactKey": str}
GIVEN = {
    "taskOutputParameter": _FROM_TASK,
    "taskOutputArtifact": _FROM_TASK,
    "taskFinalStatus": {"producerTask": str},
    "componentInputParameter": str,
    "componentInputArtifact": str,
    "runtimeValue": {"constant": object, "constantValue": _OLD_VALUE},
    "parameterExpressionSelector": str,
}
"""The form of an input of a task: a constant, a parameter, or the output of a task. Inputs of Kubernetes options have
the same form.
"""
_TASK = {
    "componentRef": _NAMED,
    "taskInfo": _NAMED,
    "inputs": {"parameters": {_EACH: GIVEN}, "artifacts": {_EACH: GIVEN}},
    "dependentTasks": [str],
    "cachingOptions": {"enableCache": bool},
    "triggerPolicy": {"condition": str, "strategy": str},
    "retryPolicy": {"maxRetryCount": int, "backoffDuration": str, "backoffFactor": float, "backoffMaxDuration": str},
    "parameterIterator": {"itemInput": str, "items": {"raw": str, "inputParameter": str}},
    "artifactIterator": {"itemInput": str, "items": {"inputArtifact": str}},
    "iteratorPolicy": {"parallelismLimit": int},
}
_SELECTOR = {"producerSubtask": str, "outputParameterKey": str, "outputArtifactKey": str}
_CHOSEN = {
    "valueFromParameter": _SELECTOR,
    "valueFromOneof": {"parameterSelectors": [_SELECTOR]},
    "artifactSelectors": [_SELECTOR],
}
_COMPONENT = {
    "inputDefinitions": _INTERFACE,
    "outputDefinitions": _INTERFACE,
    "dag": {"tasks": {_EACH: _TASK}, "outputs": {"parameters": {_EACH: _CHOSEN}, "artifacts": {_EACH: _CHOSEN}}},
    "executorLabel": str,
}
_ACCELERATOR = {"type": str, "count": str, "resourceType": str, "resourceCount": str}
_RESOURCES = {
    **dict.fromkeys(("cpuLimit", "cpuRequest", "memoryLimit", "memoryRequest"), float),
    **dict.fromkeys((f"resource{what}{bound}" for what in ("Cpu", "Memory") for bound in ("Limit", "Request")), str),
    "accelerator": _ACCELERATOR,
}
_EXECUTOR = {
    "container": {
        "image": str,
        "command": [str],
        "args": [str],
        "env": [{"name": str, "value": str}],
        "resources": _RESOURCES,
        "lifecycle": {"preCacheCheck": {"command": [str], "args": [str]}},
    },
    "resolver": {"outputArtifactQueries": {_EACH: {"filter": str, "limit": int}}},
    "importer": {
        "artifactUri": _CONSTANT,
        "typeSchema": _TYPE,
        "metadata": dict,
        "reimport": bool,
        "downloadToWorkspace": bool,
    },
}
PIPELINE = {
    "pipelineInfo": _NAMED,
    "root": _COMPONENT,
    "components": {_EACH: _COMPONENT},
    "deploymentSpec": {"executors": {_EACH: _EXECUTOR}},
    "schemaVersion": str,
    "sdkVersion": str,
    "defaultPipelineRoot": str,
}
JOB = {
    "name": str,
    "displayName": str,
    "pipelineSpec": dict,
    "labels": {_EACH: str},
    "runtimeConfig": {"gcsOutputDirectory": str, "parameters": {_EACH: _OLD_VALUE}, "parameterValues": {_EACH: object}},
}
"""A PipelineJob: a pipeline with the settings of a run. TFX's `KubeflowV2DagRunner` writes a PipelineJob. The labels
and names of a PipelineJob have no effect.
"""
_WORKSPACE = {"size": str, "kubernetes": {"pvcSpecPatch": dict}}
PLATFORMS = {
    "platforms": {
        "tfoperator": {"deploymentSpec": {"executors": {_EACH: dict}}},
        "kubernetes": {
            "pipelineConfig": {"workspace": _WORKSPACE},
            "deploymentSpec": {"executors": {_EACH: dict}},
        },
    }
}
"""The form of the second document of a file. `platforms.tfoperator` has a part for each executor. The part has the same
form as `platforms` in component.yaml.

`platforms.kubernetes` has the options of kfp-kubernetes. The module `options` defines the form of these options. A
workspace is a folder in `pipeline_root`, so the size and the storage class of a workspace have no effect.
"""


def check(where: str, value: Any, form: Any) -> None:
    """Raise ComponentError if a value does not have this form.

    A form is a type (`str`), a list with the form of each item (`[str]`), or a map with the form of each member
    (`{"name": str}`). A member without a form is an error, unless the map has a form for the name `*`: it applies to
    all other members. `where` is the path of the value, for the message.
    """
    kind: Any = type(form) if isinstance(form, dict | list) else form
    wanted: Any = (int, float) if kind is float else kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind in (int, float)):
        raise ComponentError(f"{where}: {value!r:.60} is no {kind.__name__}")
    if isinstance(form, dict):
        for name, member in value.items():
            if (member_form := form.get(name, form.get(_EACH))) is None:
                raise ComponentError(f"{where}.{name}: is not supported in pipelines here; {member!r:.60}")
            check(f"{where}.{name}", member, member_form)
    elif isinstance(form, list):
        for number, member in enumerate(value):
            check(f"{where}[{number}]", member, form[0])
