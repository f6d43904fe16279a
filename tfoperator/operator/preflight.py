"""Waiting for an API server that serves TFJobs, with one clear line about whatever is missing.

Without this, an operator that was deployed before its CRD would fill the log with 404s of its informers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tfoperator.api.v1.types import TFJOBS
from tfoperator.clock import Clock, StopSignal
from tfoperator.kube.errors import (
    ApiError,
    ConfigError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    TransportError,
    UnauthorizedError,
)
from tfoperator.kube.objects import decode_partial
from tfoperator.kube.verbs import ApiClient

__all__ = ["await_tfjobs"]

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
_REPEAT = 300.0


def await_tfjobs(client: ApiClient, namespaces: Sequence[str], stop: StopSignal, clock: Clock) -> bool:
    """Return True once TFJobs can be listed in all the namespaces, False when stopped before.

    Asks every 0.5 s at first, then ever more rarely down to every 10 s; says what is wrong when that changes, and again
    every 5 minutes.
    """
    pause = _FIRST_PAUSE
    said, said_at = "", float("-inf")
    while not stop.is_set():
        try:
            for namespace in namespaces:
                client.list(TFJOBS, namespace, decode_partial, limit=1, metadata_only=True)
        except KubeError as error:
            message = _explain(error)
            now = clock.monotonic()
            if message != said or now - said_at >= _REPEAT:
                logger.warning("%s; trying again until that is mended", message)
                said, said_at = message, now
            pause_now = max(pause, (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0)
            stop.wait(clock, pause_now)
            pause = min(pause * 2, _LONGEST_PAUSE)
        else:
            if said:
                logger.info("TFJobs can be listed now")
            return True
    return False


def _explain(error: KubeError) -> str:
    if isinstance(error, NotFoundError):
        return (
            "the TFJob CRD is not installed: apply manifests/base/crd.yaml, "
            "or pipe what `tfoperator crd` prints into `kubectl apply -f -`"
        )
    if isinstance(error, UnauthorizedError):
        return f"the API server does not accept our credentials ({error})"
    if isinstance(error, ForbiddenError):
        return f"we may not list TFJobs, see manifests/base/rbac.yaml ({error})"
    if isinstance(error, TransportError):
        return f"the API server can't be reached ({error})"
    if isinstance(error, ConfigError):
        return f"there are no usable credentials ({error})"
    return f"TFJobs can't be listed ({error})"
