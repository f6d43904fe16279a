"""Airflow's own view of a DAG's file: `airflow_dag.py FILE RUN_ID PARAMETERS`; prints it as JSON. It needs no database.

For each task: the tasks before it, whether it is a teardown, and the pod that its operator would make for such a run.
Also how Airflow ends it when it is interrupted while its pod runs, and when it is not: the error, or nothing.
"""

import copy
import json
import logging
import sys
from types import SimpleNamespace

from airflow.dag_processing.dagbag import DagBag
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.execution_time.task_runner import _execute_task
from kubernetes.client import ApiClient


def ended(task, *, interrupted):
    """How Airflow ends a task: at SIGTERM it calls `on_kill`, and the operator goes on."""
    copied = copy.copy(task)
    execute = KubernetesPodOperator.execute
    KubernetesPodOperator.execute = lambda self, context: self.on_kill() if interrupted else None
    try:
        instance = SimpleNamespace(task=copied, _ti_context_from_server=None)
        _execute_task({"outlet_events": OutletEventAccessors()}, instance, logging.getLogger())
    except RuntimeError as error:
        return str(error)
    finally:
        KubernetesPodOperator.execute = execute
    return None


path, run_id, given = sys.argv[1:]
bag = DagBag(path)
tasks = {}
for dag in bag.dags.values():
    params = {**dag.params.dump(), **json.loads(given)}
    for task in dag.topological_sort():
        copied = copy.copy(task)
        copied.render_template_fields({"params": params, "run_id": run_id, "dag": dag, "task": copied})
        tasks[copied.task_id] = {
            "upstream": sorted(copied.upstream_task_ids),
            "teardown": copied.is_teardown,
            "retries": copied.retries,
            "interrupted": ended(copied, interrupted=True),
            "done": ended(copied, interrupted=False),
            "pod": ApiClient().sanitize_for_serialization(copied.build_pod_request_obj(None)),
        }
errors = {str(file): str(error) for file, error in bag.import_errors.items()}
dags = {name: {"parallel": dag.max_active_tasks, "params": dag.params.dump()} for name, dag in bag.dags.items()}
sys.stdout.write("\n" + json.dumps({"errors": errors, "dags": dags, "tasks": tasks}) + "\n")
