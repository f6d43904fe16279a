"""Sends writes to Workloads to the API server."""

from __future__ import annotations

import logging

from tfoperator.api.workloads import WORKLOADS
from tfoperator.controller.kueue.writes import Verb, Write
from tfoperator.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from tfoperator.kube.objects import decode_partial
from tfoperator.kube.verbs import ApiClient

logger = logging.getLogger(__name__)


def send(client: ApiClient, namespace: str, write: Write) -> bool:
    """Send a write; return whether the API server has carried it out. Thread-safe.

    False: the cache is behind, and its next state says what is still to be done. Raises KubeError if the write failed
    otherwise, and ConflictError if a Workload whose finalizer was to go has changed: what follows would delete it,
    though it may have quota by now.
    """
    try:
        match write.verb:
            case Verb.CREATE:
                client.create(WORKLOADS, namespace, write.body, decode_partial)
            case Verb.DELETE:
                client.delete(WORKLOADS, namespace, write.name, uid=write.uid)
            case Verb.PATCH | Verb.STATUS:
                subresource = "status" if write.verb is Verb.STATUS else ""
                client.patch(WORKLOADS, namespace, write.name, write.body, decode_partial, subresource=subresource)
    except (AlreadyExistsError, ConflictError, NotFoundError) as error:
        if isinstance(error, ConflictError) and "finalizers" in write.body.get("metadata", {}):
            raise
        logger.debug("%s Workload %s: %s", write.verb, write.name, error)
        return False
    return True
