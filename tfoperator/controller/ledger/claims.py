"""Changes the owner of objects: adopts orphans with a job's labels, and releases objects that no longer have them.

Ownership depends on the UID in an owner reference, never on a name. Otherwise a job that was deleted and created again
under its old name would inherit objects that the garbage collector is about to delete, and the results of pods that ran
the old spec (see adoption.py). Before an adoption, the job is read from the API server, as in Kubernetes' own
controllers. If the cache is stale, the job may be gone already although the cache still shows it. After an
adoption for such a job, the job that should own the orphan next could not adopt it.
"""

from __future__ import annotations

import logging
from typing import Any, TypeVar

import msgspec

from tfoperator.api.replicas.names import job_labels
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller.ledger.adoption import why_not_adopted
from tfoperator.controller.pods.bodies import owner_reference
from tfoperator.kube.protocol.errors import (
    BadRequestError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    namespace_is_ending,
)
from tfoperator.kube.protocol.resources import PODS, Resource
from tfoperator.kube.protocol.verbs import ApiClient, Decoder, decode_metadata
from tfoperator.kube.views.objects import HasMetadata, ObjectMeta, decode_partial, decode_pod

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=HasMetadata)


def is_refused(error: KubeError) -> bool:
    """Return whether the API server refused to change an object, but may accept such changes of other objects."""
    return isinstance(error, ForbiddenError | InvalidError | BadRequestError) and not namespace_is_ending(error)


class Claims:
    """Adopts, releases and labels objects by API calls. Thread-safe."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def can_adopt(self, job: TFJob) -> bool:
        """Return whether the job still exists and is not being deleted: asks the API server."""
        meta = job.metadata
        try:
            live = self._client.get(TFJOBS, meta.namespace, meta.name, decode_partial)
        except NotFoundError:
            return False
        return live.metadata.uid == meta.uid and live.metadata.deletion_timestamp is None

    def adopt(self, job: TFJob, resource: Resource, orphan: ObjectMeta, decode: Decoder[T]) -> T | None:
        """Make the job the controller of the orphan; return the changed object, or None if the orphan is gone.

        Raises ConflictError if the orphan has changed.
        """
        logger.info("adopting %s %s", resource.kind.lower(), orphan.key, extra={"job": job.metadata.key})
        return self._change_owners(resource, orphan, job.metadata.uid, [owner_reference(job)], decode)

    def why_not_adopted(self, job: TFJob, resource: Resource, orphan: ObjectMeta) -> str:
        """Return why the job may not adopt an orphan that is not in any cache; "" if the job may adopt it.

        A pod is read from the API server, because the result depends on the pod's status. Raises KubeError if this
        fails.
        """
        if resource != PODS:
            return ""
        return why_not_adopted(job, self._client.get(PODS, orphan.namespace, orphan.name, decode_pod))

    def release(self, job: TFJob, resource: Resource, owned: ObjectMeta, decode: Decoder[Any]) -> None:
        """Remove the job's ownership of an object that no longer has the job's labels."""
        logger.info(
            "releasing %s %s, because its labels no longer belong to this job",
            resource.kind.lower(),
            owned.key,
            extra={"job": job.metadata.key},
        )
        try:
            self._change_owners(resource, owned, job.metadata.uid, [], decode)
        except InvalidError as error:
            # The API server refuses any change, for example because the object is being deleted. Then no release is
            # needed.
            logger.debug("not released: %s", error, extra={"job": job.metadata.key})

    def label(self, job: TFJob, resource: Resource, owned: ObjectMeta) -> None:
        """Set the job's labels on an object that the job controls; the informers select objects by these labels."""
        logger.info("labelling %s %s", resource.kind.lower(), owned.key, extra={"job": job.metadata.key})
        change = {"metadata": {"uid": owned.uid, "labels": job_labels(job.metadata.name)}}
        self._client.patch(resource, owned.namespace, owned.name, change, decode_partial)

    def _change_owners(
        self, resource: Resource, meta: ObjectMeta, uid: str, instead: list[dict[str, Any]], decode: Decoder[T]
    ) -> T | None:
        """Replace the owner references that have this UID with `instead`; return the object, or None if it is gone.

        The object is read from the API server, because caches keep only the owner that is the controller.
        """
        try:
            live = self._client.get(resource, meta.namespace, meta.name, decode_metadata).metadata
            others = [msgspec.to_builtins(reference) for reference in live.owner_references if reference.uid != uid]
            change = {
                "metadata": {
                    "uid": meta.uid,
                    "resourceVersion": meta.resource_version,
                    "ownerReferences": [*others, *instead],
                }
            }
            return self._client.patch(resource, meta.namespace, meta.name, change, decode)
        except NotFoundError:
            return None
