"""Kubernetes: a component's container as a pod, and the common part of all objects of a launch.

No I/O: `config.py` (users' configs), `layers.py` (pod specs over the launcher's), `pod_status.py` (meaning of a pod's
status). `api_calls.py` and `object_backend.py` serve any kind of object, `launcher.py` pods. TFJobs build on it.
"""
