"""Lines of logs, and functions that read the current content of logs."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import BadRequestError, NotFoundError
from tfoperator.kube.views.objects import Pod
from tfoperator.sdk.states import container_status, has_started

logger = logging.getLogger(__name__)

_PARALLEL_READS = 8


class LogOptions(msgspec.Struct, frozen=True):
    """Options for reading a log: the container, the run, and the lines. See `TFJobClient.get_job_logs`."""

    container: str = ""
    previous: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    timestamps: bool = False
    tail_bytes: int | None = None


class LogLine(msgspec.Struct, frozen=True):
    """A line of a container's log, without its line end."""

    pod: str
    replica: str  # worker-0
    container: str
    text: str


def read_logs(client: Client, pods: Sequence[Pod], wanted: LogOptions) -> dict[str, str]:
    """Return the log of each pod from the API server, by the pod's name. Pods without a log are left out."""

    def read(pod: Pod) -> str | None:
        status = container_status(pod, wanted.container)
        if not has_started(status) and not wanted.previous:
            return None
        name = status.name if status is not None else wanted.container
        meta = pod.metadata
        try:
            with client.pod_log(
                meta.namespace,
                meta.name,
                name,
                previous=wanted.previous,
                tail_lines=wanted.tail_lines,
                since=wanted.since_seconds,
                timestamps=wanted.timestamps,
            ) as stream:
                return end_of(stream, wanted.tail_bytes).decode(errors="replace")
        except (NotFoundError, BadRequestError) as error:  # the pod is deleted, or this run does not exist
            logger.debug("no log of %s: %s", meta.name, error)
            return None

    with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="read-log") as pool:
        texts = list(pool.map(read, pods))
    return {pod.metadata.name: text for pod, text in zip(pods, texts, strict=True) if text is not None}


def end_of(pieces: Iterable[bytes], most: int | None) -> bytes:
    """Return the last `most` bytes of a stream, and keep only about this number of bytes in memory.

    With None, return all bytes.
    """
    kept: deque[bytes] = deque()
    size = 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        while most is not None and size - len(kept[0]) > most:
            size -= len(kept.popleft())
    joined = b"".join(kept)
    return joined if most is None else joined[-most:]
