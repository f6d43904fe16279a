"""The deployment and the service that make a job's TensorBoard.

The last spec is recorded as a hash in an annotation, so that a change is noticed without reading back a spec that the
API server has filled with defaults. Their labels differ from a replica's, so a pod of the deployment can't be taken for
a replica.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from tfoperator.api.replicas import names
from tfoperator.api.v1.choices import TensorBoardServiceType
from tfoperator.api.v1.types import TensorBoard, TFJob
from tfoperator.controller.pods.bodies import owner_reference
from tfoperator.controller.pods.options import PodOptions
from tfoperator.kube.protocol.resources import DEPLOYMENTS, SERVICES

_SECURITY_CONTEXT = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
"""The requirements of Pod Security's level `restricted`, for any image.

It has a user, since the images of TensorFlow are root's and would not start without a user. It has no `fsGroup`: for
that the kubelet would give the files of the volume to another group while replicas write there.
"""

_PORT = 6006
"""TensorBoard's own default; above 1024, so that no privilege is needed."""

_SERVICE_PORT = 80
_CLUSTER_IP = TensorBoardServiceType.CLUSTER_IP.value
_PORT_NAME = "http"


def tensorboard_deployment(job: TFJob, tensorboard: TensorBoard, options: PodOptions) -> dict[str, Any]:
    """Return the deployment of a job's TensorBoard."""
    container: dict[str, Any] = {
        "name": names.TENSORBOARD_CONTAINER,
        "image": tensorboard.image or options.default_tensorboard_image,
        "command": [
            "tensorboard",
            # A dollar sign in a command begins a variable, unless there are two.
            f"--logdir={tensorboard.log_dir.replace('$', '$$')}",
            f"--host=$({names.TENSORBOARD_HOST_VARIABLE})",
            f"--port=$({names.TENSORBOARD_PORT_VARIABLE})",
        ],
        "env": [
            *tensorboard.env,
            # After the job's own variables: of two variables with the same name the last counts.
            # Every address of the pod: `kubectl port-forward` comes by its loopback, a service by its IP.
            {"name": names.TENSORBOARD_HOST_VARIABLE, "value": "0.0.0.0"},
            {"name": names.TENSORBOARD_PORT_VARIABLE, "value": str(_PORT)},
        ],
        "ports": [{"name": _PORT_NAME, "containerPort": _PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": _PORT_NAME}, "periodSeconds": 5, "timeoutSeconds": 5},
        "resources": tensorboard.resources or {},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": list(tensorboard.volume_mounts),
    }
    selector = {names.LABEL_TENSORBOARD: job.metadata.name}
    pod = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "enableServiceLinks": False,
        "imagePullSecrets": list(tensorboard.image_pull_secrets),
        "nodeSelector": tensorboard.node_selector or {},
        "securityContext": _SECURITY_CONTEXT | (tensorboard.security_context or {}),
        "serviceAccountName": tensorboard.service_account_name or "",
        "volumes": list(tensorboard.volumes),
    }
    spec = {
        "replicas": 1,
        "revisionHistoryLimit": 1,
        "selector": {"matchLabels": selector},
        # Not two at a time: a volume that one node may mount would keep the second from starting.
        "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": selector}, "spec": pod},
    }
    return _object(job, DEPLOYMENTS.api_version, DEPLOYMENTS.kind, spec)


def refused_service_type(tensorboard: TensorBoard, options: PodOptions) -> str:
    """Return the type that the TensorBoard's service should have and may not; empty if it may."""
    wanted = tensorboard.service_type or _CLUSTER_IP
    return "" if options.exposed_tensorboards or wanted == _CLUSTER_IP else wanted


def tensorboard_service(job: TFJob, tensorboard: TensorBoard, options: PodOptions) -> dict[str, Any]:
    """Return the service of a job's TensorBoard: ClusterIP where it may not have the type that the job names."""
    refused = refused_service_type(tensorboard, options)
    spec = {
        "type": (not refused and tensorboard.service_type) or _CLUSTER_IP,
        "selector": {names.LABEL_TENSORBOARD: job.metadata.name},
        "ports": [{"name": _PORT_NAME, "port": _SERVICE_PORT, "targetPort": _PORT_NAME}],
    }
    return _object(job, SERVICES.api_version, SERVICES.kind, spec, {"refused": refused} if refused else {})


def _object(
    job: TFJob, api_version: str, kind: str, spec: dict[str, Any], hashed: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the object; `hashed` is what its annotation has to notice beside a change of `spec`."""
    digest = hashlib.sha256(msgspec.json.encode(spec | (hashed or {}), order="deterministic")).hexdigest()[:16]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": names.tensorboard_name(job.metadata.name),
            "namespace": job.metadata.namespace,
            "labels": names.tensorboard_labels(job.metadata.name),
            "annotations": {names.ANNOTATION_SPEC_HASH: digest},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }
