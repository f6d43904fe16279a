"""Writes a pipeline as a manifest for Argo Workflows, or as a file for Airflow.

The orchestrator (Argo or Airflow) starts a pod for each step. This pod runs `tfoperator pipeline step`, which launches
the container of the step. Steps pass their outputs through the metadata store, and not through the orchestrator. So the
orchestrator gets no data that a container has written. The package does no I/O. The modules for Argo and Airflow both
use `launch_plan.py`, which has the steps, the parameters and the pods.
"""
