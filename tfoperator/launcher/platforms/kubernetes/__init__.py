"""Kubernetes: runs a component's container as a pod.

The package also contains the code that all objects of a launch share. These modules do no I/O: `config.py` (users'
configs), `layers.py` (merges users' pod specs over the launcher's), `pod_status.py` (interprets a pod's status).
`api_calls.py` and `object_backend.py` handle any kind of object. `launcher.py` handles pods. The launcher of TFJobs
uses this package.
"""
