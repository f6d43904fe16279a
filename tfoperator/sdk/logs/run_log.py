"""Reads the log of one run of a container to its end, even if connections break or responses end too early."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

import msgspec

from tfoperator.api.replicas.names import replica_name
from tfoperator.base.clock import Clock, StopSignal
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import ClientClosed, KubeError, NotFoundError
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.retry import Outages
from tfoperator.kube.views.objects import Pod, decode_pod
from tfoperator.logs.lines.pods import open_pod_log
from tfoperator.logs.lines.reader import LogConnection, LogCut, LogNotYet, LogReader, NoLog
from tfoperator.sdk.logs.pod_logs import LogLine, LogOptions
from tfoperator.sdk.states import container_status, has_started

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0  # seconds between attempts to continue
_FINAL_TRIES = 3  # attempts to read the rest of the log after the run's end
SETTLE = 3.0
"""After a container's log has ended, the pod's status shows the end of the container within this many seconds."""


class ContainerRun(msgspec.Struct, frozen=True):
    """A run of a container. Each start of the container has its own log."""

    pod_uid: str
    container: str
    restarts: int


def present_run(pod: Pod, container: str = "") -> ContainerRun | None:
    """Return the pod's current run of the container.

    By default this is the container `tensorflow`. Return None if the container has no log yet.
    """
    status = container_status(pod, container)
    if status is None or not has_started(status):
        return None
    return ContainerRun(pod.metadata.uid, status.name, status.restart_count)


class _State(Enum):
    RUNNING = "running"
    ENDED = "ended"
    STARTED_AGAIN = "started again"
    """The container has begun a later run. So the log of this run must now be read with `previous`."""
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
    """Return whether the container is running, and its current run is this run."""
    return _state(pod, run) is _State.RUNNING


class RunLogReader:
    """Reads the log of one run of a container.

    Call `read()` in a thread. Any other thread can end the call by `close()`. The reader calls `sink` with each line
    once, even if connections break. There is an exception: if the server sends no time stamps and the caller has set
    `tail_lines`, lines are repeated after a broken connection.
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
        self._outages = Outages(clock)

    def close(self) -> None:
        """End the reading at once. The call is idempotent and does not block."""
        self._stop.set()
        self._log.close()

    def read(self) -> None:
        """Read until the run has ended and its log has no more lines.

        Raises KubeError if the server refuses a request, or if the first request fails.
        """
        late = 0  # connections since the run's end
        try:
            while not self._stop.is_set():
                late += self._state is not _State.RUNNING
                complete = self._read()
                self._look_at_pod(self._settle if complete else 0.0)
                # If the response broke off (not `complete`), the lines before the run's end must still be read.
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
            outages=self._outages,
            tail_lines=self._tail,
            previous=previous,
            since_seconds=self._since_seconds,
        )
        self._opened = True
        return log

    def _read(self) -> bool:
        """Read one response. Return False if a retry may succeed: the response broke off, or there is no log yet."""
        name = self._pod.metadata.name
        try:
            self._log.read()
            return True
        except LogNotYet as error:  # between two runs
            logger.debug("the log of %s can't be read yet: %s", name, error)
            if self._state is not _State.RUNNING:
                return True  # the run has ended, so the log can't be read later either
        except LogCut as error:
            if not self._opened and isinstance(error.__cause__, KubeError):
                raise error.__cause__ from None
            logger.warning("the log of %s was interrupted, and is read further: %s", name, error)
        self._stop.wait(self._clock, _RETRY_SECONDS)
        return False

    def _look_at_pod(self, settle: float) -> None:
        """Read the pod, and set the state of the run.

        If the run still seems to run, read the pod again for up to `settle` seconds: the pod's status shows the end of
        a run later than the log.
        """
        give_up = self._clock.monotonic() + settle
        while not self._stop.is_set():
            try:
                pod = self._client.get(PODS, self._pod.metadata.namespace, self._pod.metadata.name, decode_pod)
            except KubeError as error:
                if isinstance(error, ClientClosed) or not self._outages.passes(error):
                    raise
                logger.debug("can't find out whether %s still runs: %s", self._pod.metadata.name, error)
                self._stop.wait(self._clock, _RETRY_SECONDS)
                break
            self._state = _state(pod, self._run)
            if self._state is not _State.RUNNING or self._clock.monotonic() >= give_up:
                break
            self._stop.wait(self._clock, settle / 6)

    def _hand_on(self, lines: list[str]) -> None:
        self._tail = self._since_seconds = None  # after a broken connection, all new lines are wanted
        name, replica = self._pod.metadata.name, replica_name(self._pod)
        self._sink([LogLine(name, replica, self._run.container, line) for line in lines])
