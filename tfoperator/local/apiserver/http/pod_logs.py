"""`pods/{name}/log`: selects the container, and sends the data that the node agent's reader returns.

A reader is an ordinary blocking iterator, because it reads files. So a thread in a pool reads each chunk when the
server has sent the previous chunk. While a reader follows a log, it must yield a chunk at least once a second. The
chunk is `b""` if there is nothing new. The server can stop a reader only between two chunks, for example when the
client has disconnected. Until then, the reader blocks a thread that other readers need.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

from tfoperator.local.apiserver.errors import StatusError, bad_request, forbidden, invalid, invalid_value
from tfoperator.local.apiserver.members import parse_int64, query_flag
from tfoperator.local.apiserver.resource_types import PODS, ResourceType
from tfoperator.local.apiserver.storage.store import StoredObject
from tfoperator.local.runtime.log_files import LogRequest

logger = logging.getLogger(__name__)

LogReader = Callable[[LogRequest], Iterator[bytes]]
"""Yields the chunks of the log that a request names. Raises LookupError if there is no such log, or no such log yet."""

_OPTIONS = ResourceType("", "v1", "PodLogOptions", "PodLogOptions")
_LONG_AGO = 10 * 365 * 24 * 3600  # seconds; all logs of this server are newer
_MAX_THREADS = 64  # if clients follow more logs, readers take turns; a turn without new lines takes 0.1 s


def log_request(stored: StoredObject, query: Mapping[str, str], now: datetime) -> LogRequest:
    """Return the parsed query of a request for a log, with the container that it selects.

    Raises StatusError 400 if the container does not exist or has not started, or if the query names no container of a
    pod with several containers. Raises StatusError 422 for invalid options.
    """
    container = choose_container(stored.obj, query.get("container", ""))
    previous, name = query_flag(query, "previous"), stored.metadata["name"]
    if not previous:
        _check_started(stored.obj, container)
    return LogRequest(
        stored.metadata["namespace"],
        name,
        container,
        previous,
        query_flag(query, "follow"),
        _number(name, query, "tailLines"),
        _number(name, query, "limitBytes", least=1),
        _since(name, query, now),
        query_flag(query, "timestamps"),
    )


def _since(pod: str, query: Mapping[str, str], now: datetime) -> datetime | None:
    """Return the time at which the requested lines begin. Return None if the client requests all lines.

    Raises StatusError 400 for an invalid time, and 422 if the query contains both `sinceSeconds` and `sinceTime`.
    """
    seconds, text = _number(pod, query, "sinceSeconds", least=1), query.get("sinceTime", "")
    if seconds is not None and text:
        # kube-apiserver's message has an empty list (`[]`) in place of a field.
        problem = forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified")
        raise invalid(_OPTIONS, pod, [problem])
    if seconds is not None:
        return now - timedelta(seconds=min(seconds, _LONG_AGO))
    if not text:
        return None
    try:
        since = datetime.fromisoformat(text)
        if since.tzinfo is None:
            raise ValueError(text)
        return since
    except ValueError:
        raise bad_request(f'sinceTime: Invalid value: "{text[:64]}": must be a time in RFC 3339') from None


def _number(pod: str, query: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        number = parse_int64(text)
    except ValueError as error:
        raise bad_request(f'{name}: "{text[:64]}" is {error}') from None
    if number < least:
        raise invalid(_OPTIONS, pod, [invalid_value(name, number, f"must be greater than or equal to {least}")])
    return number


def choose_container(pod: Mapping[str, Any], wanted: str) -> str:
    """Return the container that the client requests.

    If `wanted` is "", this is the pod's only container. Raises StatusError 400 if the container doesn't exist, or if
    `wanted` is "" and the pod has several containers.
    """
    spec, name = pod["spec"], pod["metadata"]["name"]
    containers = [c["name"] for c in spec.get("containers") or ()]
    init = [c["name"] for c in spec.get("initContainers") or ()]
    if not wanted:
        if len(containers) == 1:
            return str(containers[0])
        listed = " ".join(containers)
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{listed}]")
    if wanted not in (*containers, *init):
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    return wanted


def _check_started(pod: Mapping[str, Any], container: str) -> None:
    status = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    own: Mapping[str, Any] = next((s for s in statuses if s.get("name") == container), {})
    if (own.get("state") or {}).get("waiting") and not own.get("restartCount"):
        reason = own["state"]["waiting"].get("reason") or "ContainerCreating"
        name = pod["metadata"]["name"]
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')


class LogReaders:
    """Reads logs in threads of a pool. Use it only in the event loop, except `join`."""

    def __init__(self) -> None:
        """Initialize, and do not start a thread yet."""
        self._pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="apiserver-log")
        self._closed = False

    def close(self) -> None:
        """End every log after its next chunk."""
        self._closed = True

    def join(self, timeout: float) -> None:
        """Wait until the threads have ended. Call this method only when no more logs will be opened.

        Wait at most `timeout` seconds, because a reader may hang.
        """
        ending = threading.Thread(target=self._pool.shutdown, name="apiserver-log-end", daemon=True)
        ending.start()
        ending.join(timeout)
        if ending.is_alive():
            logger.warning("a client still reads a log, %.0f s after the end of the server", timeout)

    async def open(self, reader: LogReader, wanted: LogRequest) -> AsyncIterator[bytes]:
        """Open a log, and wait for its first chunk.

        So the server can still respond with an error if the log can't be read. Raises StatusError if the reader fails
        before the first chunk.
        """

        def begin() -> tuple[bytes | None, Iterator[bytes]]:
            chunks = iter(reader(wanted))
            return next(chunks, None), chunks

        try:
            first, rest = await asyncio.get_running_loop().run_in_executor(self._pool, begin)
        except Exception as error:  # the node agent's reader may raise any error: it becomes the response
            raise _status(error, wanted) from error
        return self._chunks(first, rest, wanted)

    async def _chunks(self, chunk: bytes | None, rest: Iterator[bytes], wanted: LogRequest) -> AsyncIterator[bytes]:
        left = sys.maxsize if wanted.limit_bytes is None else wanted.limit_bytes
        try:
            while chunk is not None and not self._closed:
                yield chunk[:left]
                left -= len(chunk)
                if left <= 0:
                    return
                chunk = await asyncio.get_running_loop().run_in_executor(self._pool, next, rest, None)
        except Exception as error:  # noqa: BLE001 - as above, but the response has begun
            logger.warning("log of %s/%s was interrupted: %s", wanted.namespace, wanted.pod, error)


def _status(error: Exception, wanted: LogRequest) -> StatusError:
    if isinstance(error, LookupError | FileNotFoundError):
        what = "previous terminated container" if wanted.previous else "container"
        return bad_request(f'{what} "{wanted.container}" in pod "{wanted.pod}" has no log: {error}')
    logger.error("can't read the log of %s/%s", wanted.namespace, wanted.pod, exc_info=error)
    return StatusError(500, "InternalError", f"can't read the log of {PODS.singular} {wanted.pod}: {error}")
