"""The pods of a deployment, and its status, as values. This is the part of the deployment controller without I/O.

A pod is the deployment's template with two additions. First, a label contains the hash of the template, to distinguish
the pods of an older template from current pods. Second, the environment of a TensorBoard's container contains the
address and the port at which it must listen. This port is the loopback port that `loopback_network` reserves for port
80 of the TensorBoard's service.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.api.replicas import names
from tfoperator.kube.views.objects import HasMetadata, Pod
from tfoperator.local.runtime.loopback_network import LOOPBACK

HASH_LABEL = "pod-template-hash"
"""The label with the hash of the pod template. In a cluster, ReplicaSets set it."""


class DeploymentSpec(msgspec.Struct, frozen=True):
    """The number of pods, and the template of the pods."""

    replicas: int = 1
    template: dict[str, Any] = {}


class LocalDeployment(HasMetadata, frozen=True):
    """The fields of a deployment that its controller reads."""

    spec: DeploymentSpec = msgspec.field(default_factory=DeploymentSpec)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


def pod_bodies(deployment: LocalDeployment, port: int | None, *, publish: bool = False) -> list[dict[str, Any]]:
    """Return the pods of the deployment.

    A TensorBoard must listen on `port`. For any other deployment, `port` is None. With `publish`, a TensorBoard listens
    on every interface of its pod, and this port is published on loopback.

    The names of the pods are fixed. So if the controller creates a pod a second time, because its cache is outdated,
    the server rejects the second pod.
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
    """Return the path of the first container's readiness probe; "" if there is no probe."""
    containers = (deployment.spec.template.get("spec") or {}).get("containers") or [{}]
    probe = containers[0].get("readinessProbe") or {}
    return str((probe.get("httpGet") or {}).get("path") or "")


def is_running(pod: Pod) -> bool:
    """Return whether the pod is ready, which means that all its containers run."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)


def deployment_status(
    deployment: LocalDeployment, pods: Sequence[Pod], current: int, available: int, since: str
) -> dict[str, Any]:
    """Return the deployment's `status`.

    `pods` are all pods of the deployment. `current` is the number of pods with the current template, and `available`
    the number of these pods that respond. `since` is the new `lastTransitionTime` of the condition Available if
    its status has changed.
    """
    enough = available >= deployment.spec.replicas
    condition = {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": "",
        "lastTransitionTime": since,
    }
    for before in deployment.status.get("conditions") or ():
        if before.get("type") == "Available" and before.get("status") == condition["status"]:
            condition["lastTransitionTime"] = before.get("lastTransitionTime")
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
