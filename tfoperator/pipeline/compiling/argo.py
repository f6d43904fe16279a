"""Writes a pipeline as a Workflow or a WorkflowTemplate of Argo.

Argo substitutes `{{...}}` in several passes. If a parameter's value contained such text, a later pass would expand it.
A kubelet also expands `$(...)`. So an expression passes each value on in base64, which contains neither `{{` nor `$(`.
"""

from __future__ import annotations

import json
from typing import Any

from tfoperator.launcher.container.templates import rendered_value
from tfoperator.launcher.core.component import Json
from tfoperator.pipeline.compiling.launch_plan import (
    COMMAND,
    GRACE_SECONDS,
    LABEL,
    LaunchPlan,
    object_name,
    object_names,
)

RUN_ID = "{{workflow.uid}}"
_MAX_TASK_NAME = 100  # characters; Argo allows 128, and itself shortens a task's name for the name of the pod
_MAX_WORKFLOW = 50  # characters: 63, the limit of a label's value, minus the suffix that `generateName` appends
_FIRST_DELAY = "10s"  # before the first retry; each later delay is twice as long

FINAL_EXIT_CODES = (1, 2)
"""The exit codes with which a launcher reports a permanent failure or invalid input. After all other exit codes, Argo
retries the step.
"""


def argo_workflow(plan: LaunchPlan, *, template: bool = False) -> Json:
    """Return the manifest. With `template`, return a WorkflowTemplate, from which users submit workflows."""
    name = object_name(plan.name, _MAX_WORKFLOW)
    pod = plan.pods.pod_spec()
    values = [f"--encoded-param={key}={{{{=sprig.b64enc(workflow.parameters['{key}'])}}}}" for key in plan.parameters]
    annotation = f"{len(plan.steps)} steps; written by tfoperator pipeline compile"
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "WorkflowTemplate" if template else "Workflow",
        "metadata": {
            **({"name": name} if template else {"generateName": f"{name}-"}),
            "labels": {LABEL: plan.name[:63].rstrip("-_.")},
            "annotations": {"workflows.argoproj.io/description": annotation},
        },
        "spec": {
            "entrypoint": "pipeline",
            "onExit": "finish",
            "serviceAccountName": pod["serviceAccountName"],
            "parallelism": plan.pods.parallel,
            "securityContext": pod["securityContext"],
            "podSpecPatch": json.dumps({"terminationGracePeriodSeconds": GRACE_SECONDS}),
            "arguments": {"parameters": [_parameter(key, value) for key, value in plan.parameters.items()]},
            "volumes": pod["volumes"],
            "templates": [
                {"name": "pipeline", "dag": {"failFast": False, "tasks": _tasks(plan)}},
                {
                    "name": "step",
                    "inputs": {"parameters": [{"name": "step"}]},
                    **_pod(plan, [*plan.words("{{inputs.parameters.step}}", RUN_ID, "argo"), *values]),
                },
                {"name": "finish", **_pod(plan, plan.last_words(RUN_ID))},
            ],
        },
    }


def _parameter(name: str, value: Any) -> Json:
    if value is None:
        return {"name": name, "value": "", "description": "may be left empty"}
    return {"name": name, "value": rendered_value(value), "description": type(value).__name__}


def _tasks(plan: LaunchPlan) -> list[Json]:
    names = object_names(plan.steps, _MAX_TASK_NAME)
    return [
        {
            "name": names[step],
            "template": "step",
            **({"dependencies": [names[predecessor] for predecessor in after]} if after else {}),
            "arguments": {"parameters": [{"name": "step", "value": step}]},
        }
        for step, after in plan.steps.items()
    ]


def _pod(plan: LaunchPlan, words: list[str]) -> Json:
    final = ", ".join(map(str, FINAL_EXIT_CODES))
    return {
        "retryStrategy": {
            "limit": str(plan.pods.retries),
            "retryPolicy": "Always",
            "expression": f"asInt(lastRetry.exitCode) not in [{final}]",
            "backoff": {"duration": _FIRST_DELAY, "factor": "2"},
        },
        "container": {"command": list(COMMAND), "args": words, **plan.pods.pod_spec()["containers"][0]},
    }
