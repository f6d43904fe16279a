"""Reads the log of one run of one container to its end, over broken connections and answers that end too early."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import msgspec

from tfoperator.clock import Clock, StopSignal
from tfoperator.kube.client import Client
from tfoperator.kube.errors import BadRequestError, ClientClosed, NotFoundError, ServerError, TransportError
from tfoperator.kube.log_stream import LogStream
from tfoperator.kube.objects import Pod, decode_pod
from tfoperator.kube.resources import PODS
from tfoperator.sdk.logs import LogLine
from tfoperator.sdk.states import container_status, replica_name

__all__ = ["SETTLE", "Attempt", "LogReader", "is_running"]

logger = logging.getLogger(__name__)

_LONGEST_LINE = 64 * 1024
"""Bytes after which an unfinished line is handed on as it is: somebody may write without line ends for ever."""
_RETRY = 1.0  # seconds between two attempts to read on
SETTLE = 3.0
"""Seconds within which a pod's status says that the container has ended whose log has."""


class Attempt(msgspec.Struct, frozen=True):
    """One run of one container: each start of it has a log of its own."""

    pod_uid: str
    container: str
    restarts: int


def is_running(pod: Pod, attempt: Attempt) -> bool:
    """Whether this very run of the container is under way."""
    status = container_status(pod, attempt.container)
    if status is None or status.state is None or pod.metadata.uid != attempt.pod_uid:
        return False
    return status.restart_count == attempt.restarts and status.state.terminated is None and status.state.waiting is None


class LogReader:
    """Call `read()` in a thread; `close()` from any ends it.

    `sink` gets the lines. A log that was cut off is read on from the second of its last line: it may come twice.
    """

    def __init__(
        self,
        client: Client,
        pod: Pod,
        attempt: Attempt,
        sink: Callable[[list[LogLine]], object],
        *,
        tail_lines: int | None,
        clock: Clock,
        settle: float = SETTLE,
    ) -> None:
        self._client = client
        self._pod = pod
        self._attempt = attempt
        self._sink = sink
        self._tail = tail_lines
        self._clock = clock
        self._settle = settle
        self._stop = StopSignal()
        self._lock = threading.Lock()  # guards _stream
        self._stream: LogStream | None = None
        self._heard = clock.monotonic()
        self._rest = b""

    def close(self) -> None:
        """End it at once. Idempotent, does not block."""
        self._stop.set()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()

    def read(self) -> None:
        """Read until there is no more. Raises KubeError if the server refuses."""
        since: int | None = None
        try:
            while not self._stop.is_set():
                complete = self._read(since)
                if not self._goes_on(self._settle if complete else 0.0):
                    break
                # The server has ended its answer, not the container its log.
                since = int(self._clock.monotonic() - self._heard) + 1
        except NotFoundError:
            logger.debug("%s is gone", self._pod.metadata.name)
        if self._rest:
            self._hand_on([self._rest])

    def _read(self, since: int | None) -> bool:
        """Read what the server answers; False if that was cut off, or refused for now."""
        meta = self._pod.metadata
        try:
            stream = self._client.pod_log(
                meta.namespace,
                meta.name,
                self._attempt.container,
                follow=True,
                tail_lines=self._tail if since is None else None,
                since_seconds=since,
            )
        except BadRequestError as error:  # between two runs
            logger.debug("the log of %s can't be read yet: %s", meta.name, error)
            self._stop.wait(self._clock, _RETRY)
            return False
        with self._lock:
            self._stream = stream
        if self._stop.is_set():  # closed while it was being opened
            stream.close()
        try:
            for data in stream:
                self._heard = self._clock.monotonic()
                self._take(data)
        except ClientClosed:
            raise
        except (TransportError, ServerError) as error:
            logger.warning("the log of %s was cut off, reading on: %s", meta.name, error)
            self._stop.wait(self._clock, _RETRY)
            return False
        finally:
            stream.close()
        return True

    def _take(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        if lines:
            self._hand_on(lines)

    def _goes_on(self, settle: float) -> bool:
        """Whether the container runs on, though its log has ended; so its status says, for `settle` seconds."""
        give_up = self._clock.monotonic() + settle
        while not self._stop.is_set():
            pod = self._client.get(PODS, self._pod.metadata.namespace, self._pod.metadata.name, decode_pod)
            if not is_running(pod, self._attempt):
                return False
            if self._clock.monotonic() >= give_up:
                return True
            self._stop.wait(self._clock, settle / 6)
        return False

    def _hand_on(self, lines: Sequence[bytes]) -> None:
        name, replica = self._pod.metadata.name, replica_name(self._pod)
        self._sink([LogLine(name, replica, self._attempt.container, line.decode(errors="replace")) for line in lines])
