"""What became of a write whose answer was lost: a restart must not be counted for a pod that we took away ourselves.

A 5xx or a broken connection says nothing about what the API server did. Whoever takes it for a refusal believes a cache
that still shows the pod, and its end, when the watch brings it, looks like a loss.
"""

from __future__ import annotations

from tfoperator.kube.errors import (
    ApiError,
    ClientClosed,
    ConflictError,
    ConnectionRefused,
    DeadlineExceeded,
    KubeError,
    NotFoundError,
    ServerError,
    TransportError,
)
from tfoperator.kube.objects import decode_partial
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient


def was_refused(error: KubeError) -> bool:
    """Whether the API server said that it has not done what it was asked for, nor has somebody else before."""
    return isinstance(error, ApiError) and not isinstance(error, ConflictError | ServerError)


def was_deleted(client: ApiClient, resource: Resource, namespace: str, name: str, uid: str, error: KubeError) -> bool:
    """Whether the object is gone, or on its way, although its deletion was answered with this error.

    Asks the API server where the error leaves that open, and believes the error if there is no answer to that either.
    """
    if isinstance(error, NotFoundError):
        return True
    if was_refused(error):
        return False
    # Refused: it was not processed. Silence: another question would take as long, and be answered as little.
    if isinstance(error, ConnectionRefused | DeadlineExceeded | ClientClosed):
        return False
    if not isinstance(error, ApiError | TransportError):
        return False
    try:
        meta = client.get(resource, namespace, name, decode_partial).metadata
    except NotFoundError:
        return True
    except KubeError:
        return False
    return meta.uid != uid or meta.deletion_timestamp is not None
