"""Writes a pipeline as a file for Airflow's DAG folder, with a KubernetesPodOperator for each step.

The file contains the pipeline's own data as literals. The code around the literals is the same in every file. Airflow
renders arguments once as Jinja templates, and a kubelet expands `$(...)`. So values are passed to the pod in base64,
which contains neither `{{` nor `$(`.
"""

from __future__ import annotations

import pprint
from typing import Any

import msgspec

from tfoperator.launcher import ComponentError
from tfoperator.pipeline.compiling.launch_plan import COMMAND, GRACE_SECONDS, LABEL, LaunchPlan, object_name

CONTAINER = "main"
_RUN_ID = "{{ run_name(run_id) }}"
_STEP = "STEP"
_FILE_ENDINGS = (".json", ".yaml", ".yml")
"""If an argument has such an ending, Airflow takes the argument for the name of a template file."""

_FILE = '''"""The pipeline {plan.name} as a DAG of Airflow: each task is a pod that launches a step.

Written by `tfoperator pipeline compile --to airflow`: compile it again instead of changing it. It needs the package
apache-airflow-providers-cncf-kubernetes, and Airflow's connection to a cluster or its own pod in one.
"""

import base64
import hashlib
import json
import re
from datetime import timedelta

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

try:
    from airflow.sdk import DAG, Param
except ImportError:  # Airflow 2
    from airflow import DAG
    from airflow.models.param import Param

PARAMETERS = {parameters}
STEPS = {steps}
STEP_ARGUMENTS = {arguments}
LAST_ARGUMENTS = {last}
POD = {pod}


def encoded(value):
    """A parameter as `tfoperator pipeline step --encoded-param` takes it: its text, in base64."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return base64.b64encode(text.encode()).decode()


def run_name(run_id):
    """The id of the pipeline's run: Airflow's may have any characters."""
    readable = re.sub("[^A-Za-z0-9]+", "-", run_id)[:60].strip("-")
    return f"{{readable or 'run'}}-{{hashlib.sha256(run_id.encode()).hexdigest()[:12]}}"


class Launcher(KubernetesPodOperator):
    """A pod that launches a step.

    A task that Airflow interrupts deletes its pod, goes on, and is a success for Airflow
    (https://github.com/apache/airflow/issues/73006). Here it fails, and its next try goes on with the step.
    """

    interrupted = False

    def on_kill(self):
        self.interrupted = True
        super().on_kill()

    def post_execute(self, context, result=None):
        super().post_execute(context, result)
        if self.interrupted:
            raise RuntimeError("the task was interrupted, and its pod deleted: its step has not succeeded")


def launcher(task_id, arguments, name, **more):
    """A pod that launches. What kills the task stops the step: the launcher has time to do so."""
    return Launcher(
        task_id=task_id,
        name=name,
        cmds={command},
        arguments=arguments,
        pod_template_dict=POD,
        base_container_name={container!r},
        termination_grace_period={grace},
        do_xcom_push=False,
        retries={plan.pods.retries},
        retry_delay=timedelta(seconds=10),
        retry_exponential_backoff=True,
        **more,
    )


with DAG(
    dag_id={plan.name!r},
    description={description!r},
    schedule=None,
    catchup=False,
    max_active_tasks={plan.pods.parallel},
    params={{name: Param(value, type=kind) for name, (value, kind) in PARAMETERS.items()}},
    user_defined_macros={{"encoded": encoded, "run_name": run_name}},
    tags=["tfoperator"],
) as dag:
    values = [f"--encoded-param={{name}}={{{{{{{{ encoded(params[{{name!r}}]) }}}}}}}}" for name in PARAMETERS]
    tasks = {{}}
    for step, after in STEPS.items():
        words = [step if word == {step!r} else word for word in STEP_ARGUMENTS]
        tasks[step] = launcher(step, [*words, *values], {prefix!r})
        tasks[step].set_upstream([tasks[one] for one in after])
    # A teardown: it runs in any case, and what becomes of it does not decide what became of the run.
    finish = launcher("tfoperator-finish", LAST_ARGUMENTS, {prefix!r}, trigger_rule="all_done").as_teardown()
    finish.set_upstream(list(tasks.values()))
'''


def airflow_file(plan: LaunchPlan) -> str:
    """Return the text of the DAG's file.

    Raises ComponentError if Airflow would misinterpret the name of a step, or if the code in the file uses this name.
    """
    for step in plan.steps:
        if step.endswith(_FILE_ENDINGS):
            raise ComponentError(
                f"step {step}: the name must not end in {' or '.join(_FILE_ENDINGS)}, because Airflow would take it "
                "for the name of a template file: rename the step"
            )
        if step in (_STEP, "tfoperator-finish"):
            raise ComponentError(f"step {step}: the DAG's file uses this name itself: rename the step")
    metadata = {"labels": {LABEL: plan.name[:63].rstrip("-_.")}}
    spec = {"restartPolicy": "Never", **plan.pods.pod_spec()}
    spec["containers"] = [{"name": CONTAINER, **spec["containers"][0]}]
    return _FILE.format(
        plan=plan,
        description=f"{len(plan.steps)} steps; written by tfoperator pipeline compile",
        parameters=_literal({name: _parameter(value) for name, value in plan.parameters.items()}),
        steps=_literal({step: list(after) for step, after in plan.steps.items()}),
        arguments=_literal(plan.words(_STEP, _RUN_ID, "airflow")),
        last=_literal(plan.last_words(_RUN_ID)),
        pod=_literal({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}),
        command=list(COMMAND),
        container=CONTAINER,
        grace=GRACE_SECONDS,
        prefix=object_name(plan.name, 40),
        step=_STEP,
    )


def _parameter(value: Any) -> tuple[Any, str | list[str]]:
    """Return a parameter's default value, and the name of the value's type in JSON Schema.

    For the default value None, the type is null or a string.
    """
    return value, ["null", "string"] if value is None else msgspec.json.schema(type(value))["type"]


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=110, sort_dicts=False)
