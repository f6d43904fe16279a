"""Airflow's own view of a DAG's file: `airflow_dag.py FILE RUN_ID PARAMETERS`; prints it as JSON. It needs no database.

Of each task: what it comes after, whether it is a teardown, and the pod that its operator would make for such a run.
"""

import copy
import json
import sys

from airflow.dag_processing.dagbag import DagBag
from kubernetes.client import ApiClient

path, run_id, given = sys.argv[1:]
bag = DagBag(path)
tasks = {}
for dag in bag.dags.values():
    params = {**dag.params.dump(), **json.loads(given)}
    for task in dag.topological_sort():
        one = copy.copy(task)
        one.render_template_fields({"params": params, "run_id": run_id, "dag": dag, "task": one})
        tasks[one.task_id] = {
            "upstream": sorted(one.upstream_task_ids),
            "teardown": one.is_teardown,
            "retries": one.retries,
            "pod": ApiClient().sanitize_for_serialization(one.build_pod_request_obj(None)),
        }
errors = {str(file): str(error) for file, error in bag.import_errors.items()}
dags = {name: {"parallel": dag.max_active_tasks, "params": dag.params.dump()} for name, dag in bag.dags.items()}
sys.stdout.write("\n" + json.dumps({"errors": errors, "dags": dags, "tasks": tasks}) + "\n")
