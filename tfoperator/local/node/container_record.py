"""The record of one container of a pod, its delay between restarts, and its termination message.

A container writes its termination message to the file at `terminationMessagePath`, and the kubelet's rules apply to
this file. If the runtime mounts files into containers, each attempt gets its own file at this path. A container without
mounts is a plain process, which writes to the path on this machine. If that file has not changed since before the start
of the process, its content is not the message of the process. For plain processes, the default path
`/dev/termination-log` is ignored, because all of them would share this file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tfoperator.base.files import file_mark, open_regular
from tfoperator.base.private_files import private_folder
from tfoperator.kube.views.pod_spec import Container
from tfoperator.kube.views.pod_status import ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.runtime.protocol import ContainerIdentity, ContainerProcess, Mount, real_path

BACKOFF_BASE = 1.0
"""Seconds before the second restart in a row. The delay doubles for each later restart. The kubelet starts with 10
seconds, to protect a node with many crashing pods. Here a user waits for the restart, so the delay is shorter.
"""
BACKOFF_CAP = 300.0
"""The maximum number of seconds between restarts, as in the kubelet."""
BACKOFF_RESET = 600.0
"""The delay is reset after a container has run for this many seconds, as with the kubelet."""


MAX_MESSAGE = 4096
"""The maximum number of bytes of a termination message. Of a larger file, the end is the message, as in the kubelet
(MaxContainerTerminationMessageLength).
"""
MAX_LOG = 2048
"""The number of bytes at the end of the log that become the termination message, as in the kubelet, if the container
has `terminationMessagePolicy: FallbackToLogsOnError`.
"""
MAX_LOG_LINES = 80
DEFAULT_PATH = "/dev/termination-log"
MOUNT_NAME = "termination-message"

_FALLBACK_POLICY = "FallbackToLogsOnError"


class TerminationMessage:
    """The termination message of one attempt to run a container.

    Create this object before the container starts. Call `read` once, after the container has ended.
    """

    def __init__(self, container: Container, path: Path | None, mount: Mount | None = None) -> None:
        self.mount = mount
        """The mount of the message's file that the container needs. None if the container writes to the path on this
        machine.
        """
        self._path = path
        self._fallback = container.termination_message_policy == _FALLBACK_POLICY
        self._before = None if path is None else file_mark(path, follow_symlinks=False)

    @classmethod
    def mounted(cls, container: Container, file: Path) -> TerminationMessage:
        """Create `file` for a mount, and return the message that a container will write to it.

        Raises OSError if the file can't be created.
        """
        private_folder(file.parent)
        file.unlink(missing_ok=True)
        file.touch()
        file.chmod(0o666)  # for any user ID in the container; other users of the machine can't open the folder
        path = container.termination_message_path or DEFAULT_PATH
        return cls(container, file, Mount(MOUNT_NAME, file, path))

    @classmethod
    def on_this_machine(cls, container: Container, mounts: Sequence[Mount]) -> TerminationMessage:
        """Return the message of a plain process, which writes to `terminationMessagePath` on this machine."""
        wanted = container.termination_message_path
        return cls(container, None if wanted in ("", DEFAULT_PATH) else Path(real_path(wanted, mounts)))

    def read(self, exit_code: int, log: Path | None) -> str:
        """Return the container's message; "" if it wrote no message.

        If the policy is `FallbackToLogsOnError` and the container has failed without a message, return the end of
        `log`.
        """
        message = _tail(self._path, MAX_MESSAGE, self._before) if self._path is not None else ""
        if message or exit_code == 0 or not self._fallback or log is None:
            return message
        return "".join(_tail(log, MAX_LOG).splitlines(keepends=True)[-MAX_LOG_LINES:])


def _tail(path: Path, most: int, before: tuple[int, int, int] | None = None) -> str:
    """Return the last `most` bytes of a file that the container may have replaced. Return "" if the file is missing, or
    if `before` shows that the file has not changed since the container started.

    If the file can't be read, return the kubelet's message about this.
    """
    if before is not None and file_mark(path, follow_symlinks=False) == before:
        return ""
    try:
        with open_regular(path) as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - most))
            return stream.read(most).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"Error on reading termination log {path}: {error.strerror}"


def backoff(failures: int) -> float:
    """Return the seconds to wait before a restart, if the container has ended this many times in a row.

    For 1, 2, 3 and 4 ends, the results are 0, 1, 2 and 4 seconds. The maximum is `BACKOFF_CAP`.
    """
    return 0.0 if failures <= 1 else min(BACKOFF_CAP, BACKOFF_BASE * 2.0 ** min(failures - 2, 30))


def restarts_after(container: Container, pod_policy: str, exit_code: int) -> bool:
    """Return whether a container is restarted after this exit code, by a kubelet's rules (Kubernetes 1.35)."""
    if container.restart_policy:
        for rule in container.restart_policy_rules or ():
            codes = rule.exit_codes
            if codes is not None and (exit_code in codes.values) == (codes.operator == "In"):
                return True
    policy = container.restart_policy or pod_policy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


State = ContainerStateWaiting | ContainerStateRunning | ContainerStateTerminated
"""The state of a container: not started yet or between two attempts; started; or ended. A container that failed to
start has no `started_at`.
"""
NOT_STARTED = ContainerStateWaiting("ContainerCreating")
"""The state of a container before the first attempt to start it."""


@dataclass(frozen=True)
class RunningContainer:
    """One running attempt: its process, and the log that the process writes."""

    process: ContainerProcess
    log: LogFile


@dataclass
class ContainerRecord:
    """The agent's record of one container of a pod. It belongs to the pod's worker thread.

    Other threads read only `container`, which never changes, and `running`, which is always replaced as a whole. So
    they always read the values of a single attempt.
    """

    container: Container
    sidecar: bool = False
    """Whether it is a sidecar: an init container that runs until the other containers have ended."""
    state: State = NOT_STARTED
    last: ContainerStateTerminated | None = None
    identity: ContainerIdentity | None = None
    """The container's identity in the last attempt that has started. This value is kept until the next attempt begins.
    """
    last_identity: ContainerIdentity | None = None
    """The container's identity in the attempt that ended with `last`."""
    restarts: int = 0
    started_once: bool = False
    running: RunningContainer | None = None
    log: LogFile | None = None
    """The log of the last attempt."""
    message: TerminationMessage | None = None
    failures: int = 0  # consecutive ends, for the back-off
    next_start: float | None = 0.0  # on the monotonic clock; None while an attempt runs, or if no attempt follows
    started_monotonic: float = 0.0

    @property
    def process(self) -> ContainerProcess | None:
        """The process of the running attempt, if an attempt runs."""
        return None if self.running is None else self.running.process

    @property
    def over(self) -> bool:
        """Whether the container has ended and will not be restarted."""
        return self.next_start is None and self.process is None

    @property
    def succeeded(self) -> bool:
        """Whether the container has ended with exit code 0."""
        return isinstance(self.state, ContainerStateTerminated) and self.state.exit_code == 0

    @property
    def initialised(self) -> bool:
        """For an init container: whether the next container may start."""
        if not self.sidecar:
            return self.succeeded
        return isinstance(self.state, ContainerStateRunning) or (
            self.last is not None and self.last.started_at is not None
        )

    def wait(self, reason: str, message: str, until: float) -> None:
        """Record that the container can't be started before `until`, a time on the monotonic clock."""
        self.state = ContainerStateWaiting(reason, message)
        self.next_start = until

    def begin(self, log: LogFile) -> None:
        """Record that an attempt to start the container begins. `log` is the log of this attempt only."""
        if self.started_once:
            self.restarts += 1
        self.started_once = True
        self.next_start = None
        self.identity = None
        self.log = log

    def run(self, process: ContainerProcess, now: datetime, monotonic: float) -> None:
        """Record that the container has started."""
        assert self.log is not None, "an attempt must have begun before it can run"
        self.running = RunningContainer(process, self.log)
        self.identity = process.identity
        self.state = ContainerStateRunning(now)
        self.started_monotonic = monotonic

    def end(self, code: int, now: datetime, *, reason: str = "", message: str = "") -> None:
        """Record that the container has ended, or failed to start."""
        started = self.state.started_at if isinstance(self.state, ContainerStateRunning) else None
        self.running = None
        reason = reason or ("Completed" if code == 0 else "Error")
        self.state = ContainerStateTerminated(code, reason, message, finished_at=now, started_at=started)

    def restart(self, monotonic: float) -> float:
        """Schedule the container's restart. Return the seconds until this restart."""
        assert isinstance(self.state, ContainerStateTerminated)
        if self.state.started_at is not None and monotonic - self.started_monotonic >= BACKOFF_RESET:
            self.failures = 0
        self.failures += 1
        self.last, self.last_identity = self.state, self.identity
        delay = backoff(self.failures)
        self.next_start = monotonic + delay
        return delay
