"""`pods/{name}/log`: selects the container and streams the chunks of the node agent's reader.

A reader is a plain blocking iterator (it reads files), so each runs in its own thread and sends its chunks to the event
loop. While it follows a log it must yield at least about every second, `b""` if there is nothing new: only then can it
be stopped when the client has gone, or the server stops.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from tfoperator.local.apiserver.errors import StatusError, bad_request
from tfoperator.local.apiserver.http.watch_streams import LineSink
from tfoperator.local.apiserver.members import parse_int64, query_flag
from tfoperator.local.apiserver.resource_types import PODS
from tfoperator.local.apiserver.storage.store import StoredObject
from tfoperator.local.runtime import LogRequest

logger = logging.getLogger(__name__)

LogReader = Callable[[LogRequest], Iterator[bytes]]
"""Yields the chunks of a request. Raises LookupError if there is no such log (yet)."""

_LONG_AGO = 10 * 365 * 24 * 3600  # seconds: longer than any log of this server
_CHUNKS_AHEAD = 16  # the number of chunks that a reader may be ahead of its client


def log_request(stored: StoredObject, query: Mapping[str, str], now: datetime) -> LogRequest:
    """Read the query and select the container. Raises StatusError 400 if it is ambiguous or has not started."""
    container = choose_container(stored.obj, query.get("container", ""))
    previous = query_flag(query, "previous")
    if not previous:
        _check_started(stored.obj, container)
    return LogRequest(
        stored.metadata["namespace"],
        stored.metadata["name"],
        container,
        previous,
        query_flag(query, "follow"),
        _number(query, "tailLines"),
        _number(query, "limitBytes", least=1),
        _since(query, now),
        query_flag(query, "timestamps"),
    )


def _since(query: Mapping[str, str], now: datetime) -> datetime | None:
    """Return the time of the first wanted lines. Raises StatusError 400 for an invalid time, or two."""
    seconds, text = _number(query, "sinceSeconds", least=1), query.get("sinceTime", "")
    if seconds is not None and text:
        raise bad_request("sinceSeconds: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified")
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


def _number(query: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        number = parse_int64(text)
    except ValueError:
        number = -1
    if number < least:
        raise bad_request(f'{name}: Invalid value: "{text[:64]}": must be greater than or equal to {least}')
    return number


def choose_container(pod: Mapping[str, Any], wanted: str) -> str:
    """Return the requested container. Raises StatusError 400 if it doesn't exist, or if one must be named."""
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


class _End:
    """Sent after the last chunk, with the exception that ended the reader, if any."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


class LogThreads:
    """Runs readers in threads; `stop` ends and joins them. Use from the event loop, `stop` from outside of it."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._lock = threading.Lock()  # guards _threads
        self._threads: set[threading.Thread] = set()
        self._stopping = threading.Event()

    def stop(self, timeout: float) -> None:
        """Wait up to `timeout` seconds in total for the readers to end; one that doesn't is logged and left behind."""
        self._stopping.set()
        with self._lock:
            threads = tuple(self._threads)
        for thread in threads:
            thread.join(timeout / max(1, len(threads)))
            if thread.is_alive():
                logger.warning("%s did not end within %s s", thread.name, timeout)

    async def open(self, reader: LogReader, wanted: LogRequest) -> LogChunks:
        """Open a log and wait for its first chunk, so that a missing log can still be refused."""
        stream = LogChunks(self, reader, wanted)
        try:
            await stream.wait_for_first()
        except BaseException:
            stream.close()
            raise
        return stream

    def add(self, thread: threading.Thread) -> None:
        """Add a thread to be joined."""
        with self._lock:
            self._threads.add(thread)

    def discard(self, thread: threading.Thread) -> None:
        """Remove a thread that is about to end."""
        with self._lock:
            self._threads.discard(thread)

    @property
    def stopping(self) -> bool:
        """Whether readers must end."""
        return self._stopping.is_set()


class LogChunks:
    """One log that is being sent to a client."""

    def __init__(self, readers: LogThreads, reader: LogReader, wanted: LogRequest) -> None:
        """Start the reader's thread."""
        self._readers = readers
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes | _End] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD)
        self._gone = threading.Event()
        self._head: bytes | _End = b""
        name = f"apiserver-log {wanted.namespace}/{wanted.pod}/{wanted.container}"
        thread = threading.Thread(target=self._read, args=(reader,), name=name, daemon=True)
        readers.add(thread)
        thread.start()

    def _read(self, reader: LogReader) -> None:
        error = None
        try:
            for chunk in reader(self._wanted):
                if not self._wait_for_room():
                    break
                self._hand_over(chunk)
        except Exception as caught:  # noqa: BLE001 - a reader is foreign code; its failure is the answer to the client
            error = caught
        finally:
            self._hand_over(_End(error))
            self._readers.discard(threading.current_thread())

    def _wait_for_room(self) -> bool:
        while not self._gone.is_set() and not self._readers.stopping:
            if self._room.acquire(timeout=0.2):
                return True
        return False

    def _hand_over(self, item: bytes | _End) -> None:
        try:
            self._loop.call_soon_threadsafe(self._chunks.put_nowait, item)
        except RuntimeError:
            self._gone.set()  # the loop is closed, and so is every client's connection

    async def wait_for_first(self) -> None:
        """Wait for the first chunk; raise the reader's exception, as a status."""
        self._head = await self._chunks.get()
        if isinstance(self._head, _End) and self._head.error is not None:
            raise _status(self._head.error, self._wanted)

    async def send(self, sink: LineSink) -> None:
        """Send all chunks to the client, until the log ends or the client has gone."""
        left = self._wanted.limit_bytes
        item = self._head
        while not isinstance(item, _End):
            data = item if left is None else item[:left]
            if data:
                await sink.write(data)
            self._room.release()
            if left is not None:
                left -= len(data)
                if left <= 0:
                    return
            item = await self._chunks.get()
        if item.error is not None:
            logger.warning("log of %s/%s broke off: %s", self._wanted.namespace, self._wanted.pod, item.error)

    def close(self) -> None:
        """Stop the reader: the client has gone. Idempotent."""
        self._gone.set()


def _status(error: Exception, wanted: LogRequest) -> StatusError:
    if isinstance(error, LookupError | FileNotFoundError):
        what = "previous terminated container" if wanted.previous else "container"
        return bad_request(f'{what} "{wanted.container}" in pod "{wanted.pod}" has no log: {error}')
    logger.error("can't read the log of %s/%s", wanted.namespace, wanted.pod, exc_info=error)
    return StatusError(500, "InternalError", f"can't read the log of {PODS.singular} {wanted.pod}: {error}")
