"""The pods that a deployment asks for, and its status, as values: the pure half of the deployment controller.

A pod is the template with two things added. A label has the hash of all the rest, so that pods of an older template are
told from those of the present one. And a TensorBoard's container is told to listen where its service is reached on this
machine: its port 80 is a port of the loopback interface (see `network`), and nothing here listens beyond that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.api import names
from tfoperator.kube.objects import HasMetadata, Pod
from tfoperator.local.runtime import LOOPBACK

HASH_LABEL = "pod-template-hash"
"""As in a cluster, where the ReplicaSets in between have it."""


class DeploymentSpec(msgspec.Struct, frozen=True):
    """How many pods, and what they are made from."""

    replicas: int = 1
    template: dict[str, Any] = {}


class LocalDeployment(HasMetadata, frozen=True):
    """A deployment as its controller sees it."""

    spec: DeploymentSpec = msgspec.field(default_factory=DeploymentSpec)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


def pod_bodies(deployment: LocalDeployment, port: int | None, *, publish: bool = False) -> list[dict[str, Any]]:
    """The pods that there should be; `port` is where a TensorBoard has to listen, None if this is none.

    With `publish` it listens there on every interface of its pod, and the port is published on loopback.

    They have names of their own, so that making one twice is refused, whatever a cache has missed.
    """
    meta, template = deployment.metadata, deployment.spec.template
    spec = template.get("spec") or {}
    if port is not None:
        containers = [_listening(container, port, publish) for container in spec.get("containers") or ()]
        spec = {**spec, "containers": containers}
    digest = hashlib.sha256(msgspec.json.encode([template.get("metadata"), spec], order="deterministic")).hexdigest()
    labels = (template.get("metadata") or {}).get("labels") or {}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "namespace": meta.namespace,
        "labels": {**labels, HASH_LABEL: digest[:10]},
        "annotations": (template.get("metadata") or {}).get("annotations") or {},
        "ownerReferences": [owner],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "name": f"{meta.name}-{digest[:10]}-{number}"},
            "spec": spec,
        }
        for number in range(deployment.spec.replicas)
    ]


def probed_path(deployment: LocalDeployment) -> str:
    """The path that the first container's readiness probe asks for; "" without one."""
    containers = (deployment.spec.template.get("spec") or {}).get("containers") or [{}]
    probe = containers[0].get("readinessProbe") or {}
    return str((probe.get("httpGet") or {}).get("path") or "")


def is_running(pod: Pod) -> bool:
    """Whether all its containers run."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)


def deployment_status(
    deployment: LocalDeployment, pods: Sequence[Pod], current: int, available: int, since: str
) -> dict[str, Any]:
    """The status for so many pods in all, of which so many are of the present template and serve.

    `since` is the time for a condition that has changed.
    """
    enough = available >= deployment.spec.replicas
    condition = {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": "",
        "lastTransitionTime": since,
    }
    for known in deployment.status.get("conditions") or ():
        if known.get("type") == "Available" and known.get("status") == condition["status"]:
            condition["lastTransitionTime"] = known.get("lastTransitionTime")
    return {
        "observedGeneration": deployment.metadata.generation,
        "replicas": len(pods),
        "updatedReplicas": current,
        "readyReplicas": available,
        "availableReplicas": available,
        "unavailableReplicas": max(deployment.spec.replicas - available, 0),
        "conditions": [condition],
    }


def _listening(container: Mapping[str, Any], port: int, publish: bool) -> dict[str, Any]:
    host = "0.0.0.0" if publish else LOOPBACK
    places = {names.TENSORBOARD_HOST_VARIABLE: host, names.TENSORBOARD_PORT_VARIABLE: str(port)}
    env = [
        {"name": variable["name"], "value": places[variable["name"]]} if variable.get("name") in places else variable
        for variable in container.get("env") or ()
    ]
    ports = [{"containerPort": port, "hostPort": port, "hostIP": LOOPBACK}] if publish else container.get("ports", [])
    return {**container, "env": env, "ports": ports}
