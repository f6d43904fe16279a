"""Pods of elastic jobs: each has the number of workers that it was made for, and a probe asks for room alone. Pure.

A probe is the pod of a worker that the job might have. It costs no machine: it waits for a node like any pod. When a
scheduler gives it a node, its program does not start, because it mounts a ConfigMap that does not exist: the operator
deletes it, and makes all pods anew, for one worker more.
"""

from __future__ import annotations

from typing import Any

from tfoperator.api.replicas.names import ANNOTATION_PROBE, ANNOTATION_WORKERS, DEFAULT_CONTAINER_NAME, annotated_count
from tfoperator.kube.views.objects import Pod

_VOLUME = "tfoperator-probe"
_PATH = "/var/run/tfoperator/probe"


def for_workers(pod: dict[str, Any], workers: int) -> dict[str, Any]:
    """Return the pod with the number of workers that it is made for."""
    return _annotated(pod, ANNOTATION_WORKERS, str(workers))


def as_probe(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the pod as a probe: its program never starts."""
    spec = pod["spec"]
    volume = {"name": _VOLUME, "configMap": {"name": pod["metadata"]["name"] + "-probe"}}
    mount = {"name": _VOLUME, "mountPath": _PATH}
    containers = [
        one | {"volumeMounts": [*(one.get("volumeMounts") or ()), mount]}
        if one.get("name") == DEFAULT_CONTAINER_NAME
        else one
        for one in spec["containers"]
    ]
    held = spec | {"containers": containers, "volumes": [*(spec.get("volumes") or ()), volume]}
    return _annotated(pod | {"spec": held}, ANNOTATION_PROBE, "true")


def made_for(pod: Pod) -> int:
    """Return the number of workers that the pod was made for; 0 if it does not have the number."""
    return annotated_count(pod.metadata.annotations, ANNOTATION_WORKERS)


def _annotated(pod: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    metadata = pod["metadata"]
    return pod | {"metadata": metadata | {"annotations": {**(metadata.get("annotations") or {}), name: value}}}
