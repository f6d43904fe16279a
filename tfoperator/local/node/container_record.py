"""What is known of one container of a pod, and when it is started again. Pure: times are arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from tfoperator.kube.pod_spec import Container
from tfoperator.local.node.termination_message import TerminationMessage
from tfoperator.local.runtime import ContainerProcess, LogFile

BACKOFF_BASE = 1.0
"""Seconds before the second restart in a row, doubled for each one after. The kubelet begins with 10; here a person
waits for it, and no node full of crashing pods has to be protected."""
BACKOFF_CAP = 300.0
"""Seconds between restarts at most, as with the kubelet."""
BACKOFF_RESET = 600.0
"""A container that ran this many seconds starts again from no delay, as with the kubelet."""


def backoff(failures: int) -> float:
    """Seconds to wait before a restart after this many ends in a row: 0, 1, 2, 4 ... up to `BACKOFF_CAP`."""
    return 0.0 if failures <= 1 else min(BACKOFF_CAP, BACKOFF_BASE * 2.0 ** min(failures - 2, 30))


@dataclass(frozen=True)
class Waiting:
    """Not started yet, or between two attempts."""

    reason: str = "ContainerCreating"
    message: str = ""


@dataclass(frozen=True)
class Running:
    """Started and not ended."""

    since: datetime


@dataclass(frozen=True)
class Terminated:
    """Ended. `started` is None if it never really began."""

    exit_code: int
    reason: str
    started: datetime | None
    finished: datetime
    message: str = ""


@dataclass
class ContainerRecord:
    """What the agent knows of one container of a pod. Belongs to the pod's worker thread."""

    container: Container
    sidecar: bool = False
    """Whether it is an init container that runs until the others have ended."""
    state: Waiting | Running | Terminated = field(default_factory=Waiting)
    last: Terminated | None = None
    restarts: int = 0
    started_once: bool = False
    process: ContainerProcess | None = None
    log: LogFile | None = None
    message: TerminationMessage | None = None
    failures: int = 0  # consecutive ends, for the back-off
    next_start: float | None = 0.0  # on the monotonic clock; None while it runs or when it is over
    started_monotonic: float = 0.0

    @property
    def over(self) -> bool:
        """Whether it has ended and won't be started again."""
        return self.next_start is None and self.process is None

    @property
    def succeeded(self) -> bool:
        """Whether it has ended with exit code 0."""
        return isinstance(self.state, Terminated) and self.state.exit_code == 0

    @property
    def initialised(self) -> bool:
        """As an init container: whether it holds back the next one no longer."""
        if not self.sidecar:
            return self.succeeded
        return isinstance(self.state, Running) or (self.last is not None and self.last.started is not None)

    def wait(self, reason: str, message: str, until: float) -> None:
        """It can't be started before `until`, on the monotonic clock."""
        self.state = Waiting(reason, message)
        self.next_start = until

    def begin(self, log: LogFile) -> None:
        """An attempt to start it begins, with a log of its own."""
        if self.started_once:
            self.restarts += 1
        self.started_once = True
        self.next_start = None
        self.log = log

    def run(self, process: ContainerProcess, now: datetime, monotonic: float) -> None:
        """It has been started."""
        self.process = process
        self.state = Running(now)
        self.started_monotonic = monotonic

    def end(self, code: int, now: datetime, *, reason: str = "", message: str = "") -> None:
        """It has ended, or could not be started."""
        started = self.state.since if isinstance(self.state, Running) else None
        self.process = None
        self.state = Terminated(code, reason or ("Completed" if code == 0 else "Error"), started, now, message)

    def restart(self, monotonic: float) -> float:
        """Start it again after its end; returns the seconds until then."""
        assert isinstance(self.state, Terminated)
        if self.state.started is not None and monotonic - self.started_monotonic >= BACKOFF_RESET:
            self.failures = 0
        self.failures += 1
        self.last = self.state
        delay = backoff(self.failures)
        self.next_start = monotonic + delay
        return delay
