"""Lines of logs, and the logs so far."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from tfoperator.kube.client import Client
from tfoperator.kube.errors import BadRequestError, NotFoundError
from tfoperator.kube.objects import Pod
from tfoperator.sdk.states import container_status, has_started

logger = logging.getLogger(__name__)

_PARALLEL_READS = 8


class LogLine(msgspec.Struct, frozen=True):
    """One line of a container's log, without its line end."""

    pod: str
    replica: str  # worker-0
    container: str
    text: str


def read_logs(
    client: Client,
    pods: Sequence[Pod],
    *,
    container: str = "",
    previous: bool = False,
    tail_lines: int | None = None,
    since_seconds: int | None = None,
    timestamps: bool = False,
) -> dict[str, str]:
    """Return the pods' logs so far, by pod, in their order; pods without such a log are left out."""

    def read(pod: Pod) -> str | None:
        status = container_status(pod, container)
        if not has_started(status) and not previous:
            return None
        name = status.name if status is not None else container
        meta = pod.metadata
        try:
            with client.pod_log(
                meta.namespace,
                meta.name,
                name,
                previous=previous,
                tail_lines=tail_lines,
                since_seconds=since_seconds,
                timestamps=timestamps,
            ) as stream:
                return b"".join(stream).decode(errors="replace")
        except (NotFoundError, BadRequestError) as error:  # deleted, or not started; no previous run
            logger.debug("no log of %s: %s", meta.name, error)
            return None

    with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="read-log") as pool:
        texts = list(pool.map(read, pods))
    return {pod.metadata.name: text for pod, text in zip(pods, texts, strict=True) if text is not None}
