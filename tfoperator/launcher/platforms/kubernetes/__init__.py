"""Kubernetes: runs a component's container as a pod.

These modules do no I/O: `config.py` (users' configs), `layers.py` (merges users' pod specs over the launcher's pod
spec), `pod_status.py` (interprets a pod's status). `api_calls.py` and `object_backend.py` handle pods and TFJobs, and
the launcher of TFJobs uses them, too. `launcher.py` handles pods.
"""
