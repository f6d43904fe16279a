"""Builds the pods of elastic jobs, and probes: pods that only find out whether the cluster has room for another worker.

Pure. A probe is a pod for a worker that the job does not have yet. A waiting probe costs no machine: it waits for a
node like any pod. When a scheduler assigns a node to the probe, the probe's program does not start, because the probe
mounts a ConfigMap that does not exist. The operator then deletes the probe, and creates all pods of the job again, with
one more worker.
"""

from __future__ import annotations

from typing import Any

from tfoperator.api.replicas.names import ANNOTATION_PROBE, ANNOTATION_WORKERS, DEFAULT_CONTAINER_NAME, annotated_count
from tfoperator.kube.views.objects import Pod

_VOLUME = "tfoperator-probe"
_PATH = "/var/run/tfoperator/probe"


def for_workers(pod: dict[str, Any], workers: int) -> dict[str, Any]:
    """Return the pod with an annotation: the size of the job (its number of workers) for which the pod is created."""
    return _annotated(pod, ANNOTATION_WORKERS, str(workers))


def as_probe(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the pod as a probe: its program never starts, because the pod mounts a ConfigMap that does not exist."""
    spec = pod["spec"]
    volume = {"name": _VOLUME, "configMap": {"name": pod["metadata"]["name"] + "-probe"}}
    mount = {"name": _VOLUME, "mountPath": _PATH}
    containers = [
        container | {"volumeMounts": [*(container.get("volumeMounts") or ()), mount]}
        if container.get("name") == DEFAULT_CONTAINER_NAME
        else container
        for container in spec["containers"]
    ]
    held = spec | {"containers": containers, "volumes": [*(spec.get("volumes") or ()), volume]}
    return _annotated(pod | {"spec": held}, ANNOTATION_PROBE, "true")


def made_for(pod: Pod) -> int:
    """Return the size of the job (its number of workers) for which the pod was created; 0 without the annotation."""
    return annotated_count(pod.metadata.annotations, ANNOTATION_WORKERS)


def _annotated(pod: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    metadata = pod["metadata"]
    return pod | {"metadata": metadata | {"annotations": {**(metadata.get("annotations") or {}), name: value}}}
