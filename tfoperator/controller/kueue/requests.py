"""Sends writes to Workloads to the API server."""

from __future__ import annotations

import logging
from typing import Any

from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.controller.kueue.objects import IN_USE
from tfoperator.controller.kueue.writes import Verb, Write
from tfoperator.kube.protocol.errors import AlreadyExistsError, ConflictError, NotFoundError
from tfoperator.kube.protocol.verbs import ApiClient, decode_metadata
from tfoperator.kube.views.objects import decode_partial

logger = logging.getLogger(__name__)


def send(client: ApiClient, namespace: str, write: Write) -> bool:
    """Send a write; return whether the API server has carried it out. Thread-safe.

    Returns False if the cache is behind: the next state of the cache shows which write is still necessary. Raises
    KubeError if the write failed for another reason. Raises NotFoundError if a Workload can't be created, because the
    API server does not serve Workloads. Raises ConflictError if the write removes the finalizer of a Workload, but the
    Workload has changed: the caller must not send the deletion that follows this write, because the Workload may have
    quota by now.
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
    except (AlreadyExistsError, ConflictError, NotFoundError) as error:
        if isinstance(error, ConflictError) and "finalizers" in write.body.get("metadata", {}):
            raise
        if isinstance(error, NotFoundError) and write.verb is Verb.CREATE:
            raise
        logger.debug("%s Workload %s: %s", write.verb, write.name, error)
        return False
    return True


def _with_all_finalizers(client: ApiClient, namespace: str, write: Write) -> dict[str, Any]:
    """Return the body with all finalizers of other programs, because the cache keeps only some of them.

    If another program changes the finalizers at the same time, the API server refuses the patch, because the body names
    the version of the Workload.
    """
    live = client.get(WORKLOADS, namespace, write.name, decode_metadata).metadata
    stay = [finalizer for finalizer in live.finalizers if finalizer != IN_USE]
    return write.body | {"metadata": write.body["metadata"] | {"finalizers": stay}}
