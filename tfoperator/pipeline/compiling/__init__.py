"""Writes a pipeline as a manifest for Argo Workflows, or as a file for Airflow.

For each step there is a pod, which launches the step. Pure. The modules for Argo and Airflow both use `launch_plan.py`,
which has the steps, the parameters and the pods. A pod runs `tfoperator pipeline step`. Steps exchange data through the
metadata store, so the orchestrator never sees data from a user's container.
"""
