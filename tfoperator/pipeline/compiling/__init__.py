"""A pipeline as a manifest for Argo Workflows or a file for Airflow: each step is a pod that launches it. Pure.

`launch_plan.py` is common to both: the steps, the parameters, and the pods. A pod runs `tfoperator pipeline step`;
steps exchange data through the metadata store, so the data of a user's container never passes through the orchestrator.
"""
