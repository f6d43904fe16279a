"""Sends writes to Workloads to the API server."""

from __future__ import annotations

import logging
from typing import Any

from tfoperator.api.kueue.queues import JOB_UID_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.controller.kueue.objects import IN_USE
from tfoperator.controller.kueue.writes import Verb, Write
from tfoperator.controller.ledger import StaleCache
from tfoperator.kube.protocol.errors import AlreadyExistsError, ConflictError, NotFoundError
from tfoperator.kube.protocol.options import by_name
from tfoperator.kube.protocol.verbs import ApiClient, ListWatch, decode_metadata
from tfoperator.kube.views.objects import ObjectMeta, decode_partial
from tfoperator.kube.watching.listing import list_all

logger = logging.getLogger(__name__)


def send(client: ApiClient, namespace: str, write: Write) -> bool:
    """Send a write; return whether the API server has carried it out. Thread-safe.

    Returns False if the cache is behind: the next state of the cache shows which write is still necessary. Raises
    KubeError if the write failed for another reason. Raises NotFoundError if a Workload can't be created, because the
    API server does not serve Workloads. Raises StaleCache if a Workload can't be created, because the job has this
    Workload already, and AlreadyExistsError if a Workload that the cache can't show has the same name. Raises
    ConflictError if the write removes the finalizer of a Workload, but the Workload has changed: the caller must not
    send the deletion that follows this write, because the Workload may have quota by now.
    """
    try:
        match write.verb:
            case Verb.CREATE:
                client.create(WORKLOADS, namespace, write.body, decode_partial)
            case Verb.DELETE:
                client.delete(WORKLOADS, namespace, write.name, uid=write.uid)
            case Verb.PATCH | Verb.STATUS:
                subresource = "status" if write.verb is Verb.STATUS else ""
                body = _with_all_finalizers(client, namespace, write) if write.reads_finalizers else write.body
                client.patch(WORKLOADS, namespace, write.name, body, decode_partial, subresource=subresource)
    except AlreadyExistsError as error:
        if _is_of_same_job(client, namespace, write):
            raise StaleCache("the job's Workload exists, but the cache does not show it yet") from error
        raise
    except (ConflictError, NotFoundError) as error:
        if isinstance(error, ConflictError) and "finalizers" in write.body.get("metadata", {}):
            raise
        if isinstance(error, NotFoundError) and write.verb is Verb.CREATE:
            raise
        logger.debug("%s Workload %s: %s", write.verb, write.name, error)
        return False
    return True


def _is_of_same_job(client: ApiClient, namespace: str, write: Write) -> bool:
    """Return whether the Workload with this name belongs to the job of this write, so that the cache will show it.

    The cache shows only Workloads with the label `JOB_UID_LABEL`.
    """
    live = _live(client, namespace, write.name)
    uid = write.body["metadata"]["labels"][JOB_UID_LABEL]
    return live is not None and live.is_controlled_by(uid) and JOB_UID_LABEL in live.labels


def _with_all_finalizers(client: ApiClient, namespace: str, write: Write) -> dict[str, Any]:
    """Return the body with all finalizers of other programs, because the cache keeps only some of them.

    If another program changes the finalizers at the same time, the API server refuses the patch, because the body names
    the version of the Workload. The API server also refuses the patch if the Workload is gone.
    """
    live = _live(client, namespace, write.name)
    stay = [finalizer for finalizer in (() if live is None else live.finalizers) if finalizer != IN_USE]
    return write.body | {"metadata": write.body["metadata"] | {"finalizers": stay}}


def _live(client: ApiClient, namespace: str, name: str) -> ObjectMeta | None:
    """Return all metadata of the Workload from the API server; return None if the Workload does not exist.

    Costs a LIST, because the operator has the right to list Workloads, but not the right to get a Workload.
    """
    there = list_all(ListWatch(client, WORKLOADS, namespace, decode_metadata, by_name(name))).items
    return there[0].metadata if there else None
