"""Reads the log of one run of one container to its end, despite broken connections and responses that end too early."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

import msgspec

from tfoperator.api.replicas.names import replica_name
from tfoperator.base.clock import Clock, StopSignal
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import ClientClosed, KubeError, NotFoundError, ServerError, TransportError
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.views.objects import Pod, decode_pod
from tfoperator.logs.lines.pods import open_pod_log
from tfoperator.logs.lines.reader import LogConnection, LogCut, LogNotYet, LogReader, NoLog
from tfoperator.sdk.logs.pod_logs import LogLine, LogOptions
from tfoperator.sdk.states import container_status, has_started

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0  # seconds between attempts to continue
_FINAL_TRIES = 3  # after the run's end
SETTLE = 3.0
"""Seconds within which a pod's status reports the end of a container after its log has ended."""


class ContainerRun(msgspec.Struct, frozen=True):
    """One run of one container: each start has its own log."""

    pod_uid: str
    container: str
    restarts: int


def present_run(pod: Pod, container: str = "") -> ContainerRun | None:
    """Return the pod's present run of the container (by default the container that trains); None without a log yet."""
    status = container_status(pod, container)
    if status is None or not has_started(status):
        return None
    return ContainerRun(pod.metadata.uid, status.name, status.restart_count)


class _State(Enum):
    RUNNING = "running"
    ENDED = "ended"
    STARTED_AGAIN = "started again"
    """Its log is from now on the log of the container's previous run."""
    GONE = "gone"


def _state(pod: Pod, run: ContainerRun) -> _State:
    status = container_status(pod, run.container)
    if status is None or pod.metadata.uid != run.pod_uid:
        return _State.GONE
    if status.restart_count != run.restarts:
        return _State.STARTED_AGAIN if status.restart_count == run.restarts + 1 else _State.GONE
    state = status.state
    return _State.RUNNING if state and state.terminated is None and state.waiting is None else _State.ENDED


def is_running(pod: Pod, run: ContainerRun) -> bool:
    """Return whether exactly this run of the container is running."""
    return _state(pod, run) is _State.RUNNING


class RunLogReader:
    """Call `read()` in a thread; `close()` from any ends it. `sink` gets the lines: each once, despite cuts.

    A server without time stamps repeats lines after a cut if only `tail_lines` were requested.
    """

    def __init__(
        self,
        client: Client,
        pod: Pod,
        run: ContainerRun,
        sink: Callable[[list[LogLine]], object],
        wanted: LogOptions,
        *,
        clock: Clock,
        settle: float = SETTLE,
    ) -> None:
        self._client = client
        self._pod = pod
        self._run = run
        self._sink = sink
        self._tail, self._since_seconds = wanted.tail_lines, wanted.since_seconds
        self._clock = clock
        self._settle = settle
        self._stop = StopSignal()
        self._log = LogReader(self._connect, self._hand_on, keep_times=wanted.timestamps)
        self._state = _State.RUNNING
        self._opened = False

    def close(self) -> None:
        """End it at once. Idempotent, does not block."""
        self._stop.set()
        self._log.close()

    def read(self) -> None:
        """Read until there is no more. Raises KubeError if the server refuses, or fails the first request."""
        late = 0  # connections since the run's end
        try:
            while not self._stop.is_set():
                late += self._state is not _State.RUNNING
                complete = self._read()
                self._look_at_pod(self._settle if complete else 0.0)
                # After a cut, the lines before the run's end must still be read.
                ended = self._state is not _State.RUNNING and (complete or late >= _FINAL_TRIES)
                if ended or self._state is _State.GONE:
                    break
        except NoLog as error:
            reason = error.__cause__
            if isinstance(reason, KubeError) and not isinstance(reason, NotFoundError):
                raise reason from None
            logger.debug("%s is gone", self._pod.metadata.name)
        except NotFoundError:
            logger.debug("%s is gone", self._pod.metadata.name)
        self._log.finish()

    def _connect(self, since: str) -> LogConnection:
        meta, previous = self._pod.metadata, self._state is _State.STARTED_AGAIN
        log = open_pod_log(
            self._client,
            meta.namespace,
            meta.name,
            self._run.container,
            since,
            tail_lines=self._tail,
            previous=previous,
            since_seconds=self._since_seconds,
        )
        self._opened = True
        return log

    def _read(self) -> bool:
        """Read one response; return False if it was cut off, or refused, and a retry is worthwhile."""
        name = self._pod.metadata.name
        try:
            self._log.read()
            return True
        except LogNotYet as error:  # between two runs
            logger.debug("the log of %s can't be read yet: %s", name, error)
            if self._state is not _State.RUNNING:
                return True  # not even later
        except LogCut as error:
            if not self._opened and isinstance(error.__cause__, KubeError):
                raise error.__cause__ from None
            logger.warning("the log of %s was interrupted, and is read further: %s", name, error)
        self._stop.wait(self._clock, _RETRY_SECONDS)
        return False

    def _look_at_pod(self, settle: float) -> None:
        """Read the run's state; its end may become visible `settle` seconds after its log's end."""
        give_up = self._clock.monotonic() + settle
        while not self._stop.is_set():
            try:
                pod = self._client.get(PODS, self._pod.metadata.namespace, self._pod.metadata.name, decode_pod)
            except (TransportError, ServerError) as error:
                if isinstance(error, ClientClosed):
                    raise
                logger.debug("can't find out whether %s still runs: %s", self._pod.metadata.name, error)
                self._stop.wait(self._clock, _RETRY_SECONDS)
                break
            self._state = _state(pod, self._run)
            if self._state is not _State.RUNNING or self._clock.monotonic() >= give_up:
                break
            self._stop.wait(self._clock, settle / 6)

    def _hand_on(self, lines: list[str]) -> None:
        self._tail = self._since_seconds = None  # after a cut, all new lines are wanted
        name, replica = self._pod.metadata.name, replica_name(self._pod)
        self._sink([LogLine(name, replica, self._run.container, line) for line in lines])
