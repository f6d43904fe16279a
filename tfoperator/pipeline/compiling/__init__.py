"""A pipeline as a manifest for Argo Workflows or a file for Airflow: each step is a pod that launches it. Pure.

`launch_plan.py` is common to both: the steps, the parameters, and the pods. A pod runs `tfoperator pipeline
step`; steps exchange data through the metadata store, so no data of a user's container passes
through the orchestrator.
"""

from tfoperator.pipeline.compiling.airflow import airflow_file
from tfoperator.pipeline.compiling.argo import argo_workflow
from tfoperator.pipeline.compiling.launch_plan import Claim, LauncherPods, LaunchPlan, launch_plan, steps_digest

__all__ = ["Claim", "LaunchPlan", "LauncherPods", "airflow_file", "argo_workflow", "launch_plan", "steps_digest"]
