"""Makes the deployment and the service of a job's TensorBoard.

An annotation records a hash of the spec that the operator last wrote. So the operator notices a change without
comparing the spec in the API server, to which the API server has added defaults. The labels of the two objects differ
from the labels of replicas, so the operator can't mistake a pod of the deployment for a replica.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from tfoperator.api.replicas import names
from tfoperator.api.v1.choices import TensorBoardServiceType
from tfoperator.api.v1.parts.tensorboard import TensorBoard
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.pods.bodies import owner_reference
from tfoperator.controller.pods.options import PodOptions
from tfoperator.kube.protocol.resources import DEPLOYMENTS, SERVICES

_SECURITY_CONTEXT = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
"""The fields that Pod Security's level `restricted` requires, for any image.

This context sets a user: by default the images of TensorFlow run as root, and would not start without another user. The
context sets no `fsGroup`: with `fsGroup` the kubelet would change the group of the volume's files while replicas write
there.
"""

_PORT = 6006
"""TensorBoard's own default. The port is above 1024, so the program needs no privilege."""

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
            # The kubelet replaces `$(NAME)` in a command by a variable, and reads `$$` as a dollar sign.
            f"--logdir={tensorboard.log_dir.replace('$', '$$')}",
            f"--host=$({names.TENSORBOARD_HOST_VARIABLE})",
            f"--port=$({names.TENSORBOARD_PORT_VARIABLE})",
        ],
        "env": [
            *tensorboard.env,
            # These two come after the job's own variables: of two variables with the same name, the last counts.
            # TensorBoard listens on every address: `kubectl port-forward` connects to the pod's loopback address, and
            # the service connects to the pod's IP.
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
        # The old pod ends before the new pod starts: a volume with ReadWriteOnce can't be mounted on two nodes.
        "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": selector}, "spec": pod},
    }
    return _object(job, DEPLOYMENTS.api_version, DEPLOYMENTS.kind, spec)


def refused_service_type(tensorboard: TensorBoard, options: PodOptions) -> str:
    """Return the service type that the job requests for its TensorBoard, if this type is not allowed; else empty."""
    wanted = tensorboard.service_type or _CLUSTER_IP
    return "" if options.exposed_tensorboards or wanted == _CLUSTER_IP else wanted


def tensorboard_service(job: TFJob, tensorboard: TensorBoard, options: PodOptions) -> dict[str, Any]:
    """Return the service of a job's TensorBoard.

    If the type that the job names is not allowed, the type is ClusterIP.
    """
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
    """Return a deployment or service with an annotation that has a hash of `spec` and `hashed`.

    If the hash differs from the hash on the existing object, the operator changes that object.
    """
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
