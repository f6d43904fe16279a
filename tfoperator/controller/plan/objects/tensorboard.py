"""Maintains the TensorBoard of `spec.tensorBoard`: its deployment and service, until the job is deleted.

Pure. When the job ends, is cleaned up or is suspended, the operator keeps the TensorBoard: it shows the data that the
job has written. The Deployment replaces a failed pod of the TensorBoard, so this module does not watch this pod. If a
TensorBoard fails, or the API server refuses one of its objects, the job continues.

If a queue suspends the job, other jobs need its resources, and no quota counts a TensorBoard. So the operator deletes
the deployment, and creates it again when the queue admits the job again. The operator keeps the service, so the address
stays the same. If a job in a queue has a TensorBoard that requests extended resources, such as GPUs, the operator does
not create the TensorBoard: the TensorBoard would use these resources without quota, and for longer than its job runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from tfoperator.api.kueue.queues import queue_name, uncounted_devices
from tfoperator.api.replicas import names
from tfoperator.api.v1.parts.tensorboard import TensorBoardStatus
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.types import TFJob
from tfoperator.api.validation.warnings import uncounted_board
from tfoperator.controller.plan.facts.facts import Facts, Stage, TensorBoardObjects
from tfoperator.controller.plan.facts.proposal import Act, StatusPart, Want, event
from tfoperator.controller.plan.values.actions import Create, Delete, DeleteReason, Patch, PhaseName
from tfoperator.controller.plan.values.conditions import is_finished
from tfoperator.controller.plan.values.observed import Observed
from tfoperator.controller.pods.options import PodOptions
from tfoperator.controller.pods.tensorboard import refused_service_type, tensorboard_deployment, tensorboard_service
from tfoperator.kube.views.objects import HasMetadata

_Kind = Literal["deployments", "services"]
_SPEC_FIELD = "spec.tensorBoard"


def split_tensorboard(observed: Observed) -> tuple[Observed, TensorBoardObjects]:
    """Return the observed objects of the job's replicas, and the objects of its TensorBoard.

    An object with a TensorBoard's labels but another name belongs to a user. Both results leave such an object out.
    """
    services = tuple(service for service in observed.services if names.LABEL_TENSORBOARD in service.metadata.labels)
    if not services and not observed.deployments:
        return observed, TensorBoardObjects()
    name = names.tensorboard_name(observed.job.metadata.name)
    replicas = tuple(service for service in observed.services if names.LABEL_TENSORBOARD not in service.metadata.labels)
    tensorboard = TensorBoardObjects(
        deployment=next((deployment for deployment in observed.deployments if deployment.metadata.name == name), None),
        service=next((service for service in services if service.metadata.name == name), None),
    )
    return msgspec.structs.replace(observed, services=replicas), tensorboard


def plan_tensorboard(facts: Facts) -> Iterator[Want]:
    """Create, change or delete the TensorBoard's deployment and service, so that they match the spec.

    For a suspended job, create nothing. If the suspended job is in a queue, delete the deployment. A job that waits for
    its first start has no data to show yet.
    """
    there = facts.tensorboard
    if there is None:
        return
    job, options, wanted = facts.job, facts.options, facts.job.spec.tensor_board
    if wanted is None:
        yield from _remove_all(there)
        return
    if devices := uncounted_devices(job):
        yield from _refuse(job, there, devices)
        return
    suspended = facts.verdict.stage is not Stage.FINISHED and facts.observed.is_suspended
    service = list(_bring("services", job, there.service, tensorboard_service(job, wanted, options), not suspended))
    yield from service
    if service and (refused := refused_service_type(wanted, options)):
        message = f"{_SPEC_FIELD}.serviceType: {refused} is not allowed, so the service has the type ClusterIP"
        yield event(
            JobReason.TENSORBOARD_NOT_EXPOSED,
            f"{message}; the operator's option --exposed-tensorboards allows other types",
        )
    if suspended and queue_name(job.metadata.labels):
        yield from _remove("deployments", there.deployment, DeleteReason.SUSPEND)
    else:
        body = tensorboard_deployment(job, wanted, options)
        yield from _bring("deployments", job, there.deployment, body, not suspended)
    yield StatusPart({"tensor_board": _status(there, options)})


def _refuse(job: TFJob, there: TensorBoardObjects, devices: Sequence[str]) -> Iterator[Want]:
    """Remove the TensorBoard, because no quota counts the devices that it requests.

    An event reports this once for each generation of the job, and each time that an existing TensorBoard is removed.
    """
    deployment = there.deployment
    is_new = job.status.observed_generation != job.metadata.generation and not is_finished(job.status.conditions)
    if is_new or (deployment is not None and deployment.metadata.deletion_timestamp is None):
        message = f"{_SPEC_FIELD}.resources {uncounted_board(queue_name(job.metadata.labels), devices)}"
        yield event(JobReason.TENSORBOARD_NOT_COUNTED, message)
    yield from _remove_all(there)


def _remove_all(there: TensorBoardObjects) -> Iterator[Want]:
    yield from _remove("deployments", there.deployment)
    yield from _remove("services", there.service)
    yield StatusPart({"tensor_board": None})


def _remove(kind: _Kind, current: HasMetadata | None, reason: DeleteReason = DeleteReason.NOT_WANTED) -> Iterator[Act]:
    if current is not None and current.metadata.deletion_timestamp is None:
        meta = current.metadata
        deletion = Delete(kind=kind, name=meta.name, uid=meta.uid, required=False, reason=reason)
        yield Act(PhaseName.TENSORBOARD, deletion)


def _bring(
    kind: _Kind, job: TFJob, current: HasMetadata | None, body: dict[str, Any], may_create: bool
) -> Iterator[Act]:
    """Create the object if it is missing, or change it if it was made from an older spec.

    If the object is being deleted, do nothing yet: the name of the object is free only when the object is gone.
    """
    name = names.tensorboard_name(job.metadata.name)
    if current is None:
        if may_create:
            creation = Create(kind=kind, name=name, required=False, body=body, spec_field=_SPEC_FIELD)
            yield Act(PhaseName.TENSORBOARD, creation)
        return
    meta, annotations = current.metadata, body["metadata"]["annotations"]
    if meta.deletion_timestamp is not None or not annotations.items() - meta.annotations.items():
        return
    # The spec can change only the type of a service. The selectors of the service and of the deployment never change.
    if kind == "services":
        spec = {"type": body["spec"]["type"]}
    else:
        # Replace the whole template. A merge would keep members that the spec no longer has, for example in a node
        # selector.
        spec = {"template": {"$patch": "replace", **body["spec"]["template"]}}
    change = {"metadata": {"resourceVersion": meta.resource_version, "annotations": annotations}, "spec": spec}
    patch = Patch(
        kind=kind,
        name=name,
        required=False,
        uid=meta.uid,
        body=change,
        spec_field=_SPEC_FIELD,
        strategic=kind == "deployments",
    )
    yield Act(PhaseName.TENSORBOARD, patch)


def _status(there: TensorBoardObjects, options: PodOptions) -> TensorBoardStatus | None:
    if there.service is None or there.service.metadata.deletion_timestamp is not None:
        return None
    meta = there.service.metadata
    domain = f".{options.cluster_domain}" if options.cluster_domain else ""
    url = meta.annotations.get(names.ANNOTATION_TENSORBOARD_URL) or f"http://{meta.name}.{meta.namespace}.svc{domain}"
    deployment = there.deployment
    return TensorBoardStatus(url=url, ready=deployment is not None and deployment.status.available_replicas > 0)
