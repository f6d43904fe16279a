"""A pipeline as a Workflow, or a WorkflowTemplate, of Argo.

Argo substitutes `{{...}}` several times, so a parameter's value that has such text would be expanded by a later pass,
and a kubelet expands `$(...)`. An expression hands each value on in base64, which has neither.
"""

from __future__ import annotations

import json
from typing import Any

from tfoperator.launcher.container import rendered_value
from tfoperator.pipeline.compiling.launch_plan import (
    COMMAND,
    GRACE_SECONDS,
    LABEL,
    LaunchPlan,
    object_name,
    object_names,
)

Json = dict[str, Any]

RUN_ID = "{{workflow.uid}}"
_LONGEST_TASK = 100  # Argo takes 128; pods' names and labels of 63 are made of them by Argo itself
_LONGEST_WORKFLOW = 50  # 63, less the random piece
_FIRST_DELAY = "10s"  # then twice as long each time

FINAL_EXIT_CODES = (1, 2)
"""Of a launcher: the step has failed for good, or its input makes no sense. Everything else is tried again."""


def argo_workflow(plan: LaunchPlan, *, template: bool = False) -> Json:
    """The manifest; with `template` one that stays in the cluster, from which workflows are submitted."""
    name = object_name(plan.name, _LONGEST_WORKFLOW)
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
            "serviceAccountName": plan.pods.service_account,
            "parallelism": plan.pods.parallel,
            "securityContext": plan.pods.security_context,
            "podSpecPatch": json.dumps({"terminationGracePeriodSeconds": GRACE_SECONDS}),
            "arguments": {"parameters": [_parameter(key, value) for key, value in plan.parameters.items()]},
            "volumes": plan.pods.volumes,
            "templates": [
                {"name": "pipeline", "dag": {"failFast": False, "tasks": _tasks(plan)}},
                {
                    "name": "step",
                    "inputs": {"parameters": [{"name": "step"}]},
                    **_pod(plan, [*plan.words("{{inputs.parameters.step}}", RUN_ID, "argo"), *_values(plan)]),
                },
                {"name": "finish", **_pod(plan, plan.last_words(RUN_ID))},
            ],
        },
    }


def _parameter(name: str, value: Any) -> Json:
    if value is None:
        return {"name": name, "value": "", "description": "may be left empty"}
    return {"name": name, "value": rendered_value(value), "description": type(value).__name__}


def _values(plan: LaunchPlan) -> list[str]:
    return [f"--encoded-param={name}={{{{=sprig.b64enc(workflow.parameters['{name}'])}}}}" for name in plan.parameters]


def _tasks(plan: LaunchPlan) -> list[Json]:
    names = object_names(plan.steps, _LONGEST_TASK)
    return [
        {
            "name": names[step],
            "template": "step",
            **({"dependencies": [names[one] for one in after]} if after else {}),
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
        "container": {"command": list(COMMAND), "args": words, **plan.pods.container},
    }
