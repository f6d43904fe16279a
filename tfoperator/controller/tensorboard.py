"""`spec.tensorBoard`: a deployment and a service beside the job, from its start until it is deleted. Pure.

The job's end, its clean-up and its suspension leave a TensorBoard alone: it is there to look at what the job has
written. A deployment keeps it alive, so nothing here watches its pod; that pod has none of a replica's labels, so it
can't be taken for one. Whatever goes wrong with a TensorBoard, the job trains on.

What was asked for last is an annotation with a hash, so that a change is noticed without reading back a spec that the
API server has filled with defaults.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from tfoperator.api import names
from tfoperator.api.v1.types import TensorBoard, TensorBoardServiceType, TensorBoardStatus, TFJob
from tfoperator.controller.actions import BoardCreate, BoardDelete, BoardKind, BoardPatch, Observed, PlanOptions
from tfoperator.controller.draft import Draft
from tfoperator.controller.pods import owner_reference
from tfoperator.kube.objects import Deployment, HasMetadata, Service
from tfoperator.kube.resources import DEPLOYMENTS, SERVICES

__all__ = ["BoardObjects", "is_board", "plan_board", "split_board"]

_PORT = 6006
"""TensorBoard's own default; above 1024, so that no privilege is needed."""

_SERVICE_PORT = 80
_PORT_NAME = "http"


class BoardObjects(msgspec.Struct, frozen=True):
    """What there is of a job's TensorBoard. `surplus` carries its labels under another name, and is nobody's."""

    deployment: Deployment | None = None
    service: Service | None = None
    surplus: tuple[BoardDelete, ...] = ()


def is_board(labels: dict[str, str]) -> bool:
    """Whether an object with these labels belongs to a TensorBoard, and so to no replica."""
    return names.LABEL_TENSORBOARD in labels


def split_board(observed: Observed) -> tuple[Observed, BoardObjects]:
    """What is observed of the job's replicas, and what of its TensorBoard."""
    services = tuple(service for service in observed.services if is_board(service.metadata.labels))
    if not services and not observed.deployments:
        return observed, BoardObjects()
    name = names.tensorboard_name(observed.job.metadata.name)
    replicas = tuple(service for service in observed.services if not is_board(service.metadata.labels))
    board = BoardObjects(
        deployment=next((one for one in observed.deployments if one.metadata.name == name), None),
        service=next((one for one in services if one.metadata.name == name), None),
        surplus=(*_surplus("deployments", observed.deployments, name), *_surplus("services", services, name)),
    )
    return msgspec.structs.replace(observed, services=replicas), board


def plan_board(draft: Draft, board: BoardObjects, *, create: bool = True) -> None:
    """Bring the TensorBoard to what the spec asks for; without `create` only what there is already."""
    wanted = draft.job.spec.tensor_board
    draft.board += board.surplus
    if wanted is None:
        _remove(draft, "deployments", board.deployment)
        _remove(draft, "services", board.service)
        draft.board_status = None
        return
    # The service first, as for replicas: its name resolves when somebody reads it in the status.
    _bring(draft, "services", board.service, _service(draft.job, wanted), create)
    _bring(draft, "deployments", board.deployment, _deployment(draft.job, wanted, draft.options), create)
    draft.board_status = _status(draft, board)


def _surplus(kind: BoardKind, objects: Iterable[HasMetadata], name: str) -> Iterable[BoardDelete]:
    for one in objects:
        meta = one.metadata
        if meta.name != name and is_board(meta.labels) and meta.deletion_timestamp is None:
            yield BoardDelete(kind, meta.name, meta.uid)


def _remove(draft: Draft, kind: BoardKind, current: HasMetadata | None) -> None:
    if current is not None and current.metadata.deletion_timestamp is None:
        draft.board.append(BoardDelete(kind, current.metadata.name, current.metadata.uid))


def _bring(
    draft: Draft,
    kind: BoardKind,
    current: HasMetadata | None,
    body: dict[str, Any],
    create: bool,
) -> None:
    """Create what is missing, change what was made from something else. What terminates keeps its name until then."""
    name = names.tensorboard_name(draft.job.metadata.name)
    if current is None:
        if create:
            draft.board.append(BoardCreate(kind, name, body))
        return
    meta, annotations = current.metadata, body["metadata"]["annotations"]
    if meta.deletion_timestamp is None and annotations.items() - meta.annotations.items():
        # A service's type is all of it that the spec can change; the selector of either never does.
        spec = {"type": body["spec"]["type"]} if kind == "services" else {"template": body["spec"]["template"]}
        identity = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        change = {"metadata": {**identity, "annotations": annotations}, "spec": spec}
        draft.board.append(BoardPatch(kind, name, change))


def _status(draft: Draft, board: BoardObjects) -> TensorBoardStatus | None:
    if board.service is None or board.service.metadata.deletion_timestamp is not None:
        return None
    meta = board.service.metadata
    domain = f".{draft.options.cluster_domain}" if draft.options.cluster_domain else ""
    url = meta.annotations.get(names.ANNOTATION_TENSORBOARD_URL) or f"http://{meta.name}.{meta.namespace}.svc{domain}"
    deployment = board.deployment
    return TensorBoardStatus(url=url, ready=deployment is not None and deployment.status.available_replicas > 0)


def _deployment(job: TFJob, board: TensorBoard, options: PlanOptions) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": names.TENSORBOARD_CONTAINER,
        "image": board.image or options.default_tensorboard_image,
        "command": [
            "tensorboard",
            # A dollar sign in a command begins a variable, unless there are two.
            f"--logdir={board.log_dir.replace('$', '$$')}",
            f"--host=$({names.TENSORBOARD_HOST_VARIABLE})",
            f"--port=$({names.TENSORBOARD_PORT_VARIABLE})",
        ],
        "env": [
            # Every address of the pod: `kubectl port-forward` comes by its loopback, a service by its IP.
            {"name": names.TENSORBOARD_HOST_VARIABLE, "value": "0.0.0.0"},
            {"name": names.TENSORBOARD_PORT_VARIABLE, "value": str(_PORT)},
        ],
        "ports": [{"name": _PORT_NAME, "containerPort": _PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": _PORT_NAME}, "periodSeconds": 5, "timeoutSeconds": 5},
        "resources": board.resources or {},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": list(board.volume_mounts),
    }
    selector = {names.LABEL_TENSORBOARD: job.metadata.name}
    pod = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": list(board.volumes),
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


def _service(job: TFJob, board: TensorBoard) -> dict[str, Any]:
    spec = {
        "type": board.service_type or TensorBoardServiceType.CLUSTER_IP.value,
        "selector": {names.LABEL_TENSORBOARD: job.metadata.name},
        "ports": [{"name": _PORT_NAME, "port": _SERVICE_PORT, "targetPort": _PORT_NAME}],
    }
    return _object(job, SERVICES.api_version, SERVICES.kind, spec)


def _object(job: TFJob, api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    digest = hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:16]
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
