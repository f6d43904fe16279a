"""`spec.tensorBoard`: a deployment and a service beside the job, from its start until it is deleted. Pure.

The job's end, its clean-up and its suspension leave a TensorBoard alone: it shows the data that the job has written. A
deployment keeps it alive, so this module does not watch its pod. If a TensorBoard fails, the job continues: none of its
actions is required.

Where a queue suspends the job, its room is for others, and no quota counts a TensorBoard: the deployment goes, and
comes back when the job is admitted again. The service stays, and with it the address. A TensorBoard of a job in a queue
that asks for extended resources, such as GPUs, is not made: it would have them without quota, and longer than its job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from tfoperator.api import names
from tfoperator.api.queues import queue_name, uncounted_devices
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import TensorBoardStatus
from tfoperator.api.validation.warnings import uncounted_board
from tfoperator.controller.plan.actions import Create, Delete, DeleteReason, Patch, PhaseName
from tfoperator.controller.plan.conditions import is_finished
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.observed import Observed
from tfoperator.controller.pods.tensorboard import refused_service_type, tensorboard_deployment, tensorboard_service
from tfoperator.kube.deployments import Deployment
from tfoperator.kube.objects import HasMetadata, Service

_Kind = Literal["deployments", "services"]
_SPEC_FIELD = "spec.tensorBoard"


class TensorBoardObjects(msgspec.Struct, frozen=True):
    """The objects of a job's TensorBoard."""

    deployment: Deployment | None = None
    service: Service | None = None


def split_tensorboard(observed: Observed) -> tuple[Observed, TensorBoardObjects]:
    """Return the observed objects of the job's replicas, and those of its TensorBoard.

    An object with a TensorBoard's labels under another name belongs to a user, and is in neither.
    """
    services = tuple(service for service in observed.services if names.LABEL_TENSORBOARD in service.metadata.labels)
    if not services and not observed.deployments:
        return observed, TensorBoardObjects()
    name = names.tensorboard_name(observed.job.metadata.name)
    replicas = tuple(service for service in observed.services if names.LABEL_TENSORBOARD not in service.metadata.labels)
    tensorboard = TensorBoardObjects(
        deployment=next((one for one in observed.deployments if one.metadata.name == name), None),
        service=next((one for one in services if one.metadata.name == name), None),
    )
    return msgspec.structs.replace(observed, services=replicas), tensorboard


def plan_tensorboard(draft: Draft, tensorboard: TensorBoardObjects, *, suspended: bool = False) -> None:
    """Bring the TensorBoard to the spec. Nothing is created for a suspended job, and none runs for one in a queue.

    A job that waits for its first start has nothing to show yet.
    """
    wanted = draft.job.spec.tensor_board
    if wanted is None:
        _remove(draft, "deployments", tensorboard.deployment)
        _remove(draft, "services", tensorboard.service)
        draft.tensorboard_status = None
        return
    if devices := uncounted_devices(draft.job):
        _refuse(draft, tensorboard, devices)
        return
    create = not suspended
    service = tensorboard_service(draft.job, wanted, draft.options)
    changes = _bring(draft, "services", tensorboard.service, service, create)
    if changes and (refused := refused_service_type(wanted, draft.options)):
        message = f"{_SPEC_FIELD}.serviceType: {refused} is not allowed, so the service is ClusterIP"
        draft.event(JobReason.TENSORBOARD_NOT_EXPOSED, f"{message}; see --exposed-tensorboards of the operator")
    if suspended and queue_name(draft.job.metadata.labels):
        _remove(draft, "deployments", tensorboard.deployment, DeleteReason.SUSPEND)
    else:
        deployment = tensorboard_deployment(draft.job, wanted, draft.options)
        _bring(draft, "deployments", tensorboard.deployment, deployment, create)
    draft.tensorboard_status = _status(draft, tensorboard)


def _refuse(draft: Draft, tensorboard: TensorBoardObjects, devices: Sequence[str]) -> None:
    """Have no TensorBoard, and report that once for each version of the job, or when there was one."""
    job, there = draft.job, tensorboard.deployment
    is_new = job.status.observed_generation != job.metadata.generation and not is_finished(job.status.conditions)
    if is_new or (there is not None and there.metadata.deletion_timestamp is None):
        message = f"{_SPEC_FIELD}.resources {uncounted_board(queue_name(job.metadata.labels), devices)}"
        draft.event(JobReason.TENSORBOARD_NOT_COUNTED, message)
    _remove(draft, "deployments", there)
    _remove(draft, "services", tensorboard.service)
    draft.tensorboard_status = None


def _remove(
    draft: Draft, kind: _Kind, current: HasMetadata | None, reason: DeleteReason = DeleteReason.NOT_WANTED
) -> None:
    if current is not None and current.metadata.deletion_timestamp is None:
        meta = current.metadata
        deletion = Delete(kind=kind, name=meta.name, uid=meta.uid, required=False, reason=reason)
        draft.add(PhaseName.TENSORBOARD, deletion)


def _bring(
    draft: Draft,
    kind: _Kind,
    current: HasMetadata | None,
    body: dict[str, Any],
    create: bool,
) -> bool:
    """Create what is missing, change objects made from an older spec; return whether anything is done.

    Terminating ones keep their names until they are gone.
    """
    name = names.tensorboard_name(draft.job.metadata.name)
    if current is None:
        if create:
            draft.add(
                PhaseName.TENSORBOARD, Create(kind=kind, name=name, required=False, body=body, spec_field=_SPEC_FIELD)
            )
        return create
    meta, annotations = current.metadata, body["metadata"]["annotations"]
    changes = meta.deletion_timestamp is None and bool(annotations.items() - meta.annotations.items())
    if changes:
        # A service's type is all of it that the spec can change; the selector of either never does.
        if kind == "services":
            spec = {"type": body["spec"]["type"]}
        else:
            # Replace all of it: members that the spec no longer has (of a node selector, say) would stay otherwise.
            spec = {"template": {"$patch": "replace", **body["spec"]["template"]}}
        change = {"metadata": {"resourceVersion": meta.resource_version, "annotations": annotations}, "spec": spec}
        draft.add(
            PhaseName.TENSORBOARD,
            Patch(
                kind=kind,
                name=name,
                required=False,
                uid=meta.uid,
                body=change,
                spec_field=_SPEC_FIELD,
                strategic=kind == "deployments",
            ),
        )
    return changes


def _status(draft: Draft, tensorboard: TensorBoardObjects) -> TensorBoardStatus | None:
    if tensorboard.service is None or tensorboard.service.metadata.deletion_timestamp is not None:
        return None
    meta = tensorboard.service.metadata
    domain = f".{draft.options.cluster_domain}" if draft.options.cluster_domain else ""
    url = meta.annotations.get(names.ANNOTATION_TENSORBOARD_URL) or f"http://{meta.name}.{meta.namespace}.svc{domain}"
    deployment = tensorboard.deployment
    return TensorBoardStatus(url=url, ready=deployment is not None and deployment.status.available_replicas > 0)
