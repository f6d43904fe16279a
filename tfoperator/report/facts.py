"""The facts about a job that has failed, stalled or taken too long: the input of `make_report`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

TAIL_LINES = 2000
"""The maximum number of lines at the end of a log that are read. A traceback through a Keras model has some hundred
lines.
"""

TAIL_BYTES = 512 * 1024
"""The maximum number of bytes read at the end of a log."""


KILLED = 137
"""The exit code of a process that SIGKILL has ended (128 + 9)."""

POD_GONE = "its pod is gone"
"""The `detail` of a replica whose pod was deleted, so that only its archived log remains."""


NO_POD = "it has no pod, and the job does not show the reason. Next: check that the operator is running"
"""The `detail` of a replica that has no pod, if the job's conditions show no reason."""


class Typed(StrEnum):
    """The form in which the user gave the job: a YAML manifest, the options of `tfoperator run PROGRAM`, or a Python
    function. Advice names fields, options or arguments of this form.
    """

    MANIFEST = "manifest"
    PROGRAM = "program"
    FUNCTION = "function"


class FinalState(StrEnum):
    """The state of a replica in the report. STOPPED: it ran until it was stopped, so its exit code does not count."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    NEVER_RAN = "NeverRan"


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a replica's training container.

    - `exit_code` is None while the container runs, or if its end was not observed.
    - `reason` is the kubelet's reason for the end, such as OOMKilled.
    - `stopped` is True if the container was stopped from outside, so its exit code does not count.
    - `tail` has the last lines of the container's log.
    - `log` is the path or name of the whole log.
    - `peak_memory` is in bytes.
    - `kernel` is the line in the kernel's log about the kill of the process.
    - `kernel_silent` is True if the kernel's log was read and has no such line.
    """

    exit_code: int | None = None
    reason: str = ""
    ended: datetime | None = None
    stopped: bool = False
    tail: tuple[str, ...] = ()
    log: str = ""
    peak_memory: int | None = None
    kernel: str = ""
    kernel_silent: bool = False

    @property
    def outlasted_its_grace(self) -> bool:
        """Whether the container was stopped, did not end within its grace period, and was killed with SIGKILL."""
        return self.stopped and self.exit_code == KILLED

    @property
    def failed(self) -> bool:
        """Whether the run ended with an exit code other than 0, and was not stopped from outside (`stopped`)."""
        return self.exit_code not in (None, 0) and not self.stopped


class _Stoppable(Protocol):
    """A run, or its log: `stopped` is True if the run was stopped from outside."""

    @property
    def stopped(self) -> bool: ...


def ended_runs(runs: Sequence[_Stoppable]) -> int:
    """Return how many of the runs before the last ended by themselves. `runs` are in the order of time."""
    return sum(not run.stopped for run in runs[:-1])


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a replica.

    - `name` is a name such as worker-1.
    - `detail` is the reason why the replica waits, and a next step.
    - `restarts` is the number of all restarts.
    - `disruptions` is the number of restarts after a disruption, such as an eviction.
    - `memory_limit` is in bytes.
    - `runs` are in the order of time, with the last run at the end. Older runs may be missing.
    - `stacks` is the path or name of a file with the stacks of the replica's Python threads.
    - `no_stacks` is the reason (a sentence) if the stacks were requested and are missing.
    - `waits_at` is the line of the user's own code in which the main thread was when the stacks were taken:
      `train.py, line 6, in wait`.
    """

    name: str
    pod: str = ""
    state: FinalState = FinalState.WAITING
    detail: str = ""
    restarts: int = 0
    disruptions: int = 0
    restart_policy: str = ""
    memory_limit: int | None = None
    runs: tuple[RunFacts, ...] = ()
    stacks: str = ""
    no_stacks: str = ""
    waits_at: str = ""

    @property
    def last_run(self) -> RunFacts | None:
        """The last run. It may still be in progress."""
        return self.runs[-1] if self.runs else None


class TakenReplica(msgspec.Struct, frozen=True):
    """A disruption, such as an eviction: the lost replica, the cause (with the node's name), and the event's time."""

    replica: str
    cause: str
    when: datetime


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a job and its replicas.

    - `outcome` is Running, Pending, Succeeded, Failed, TimedOut, Interrupted or Died (the run of the job was killed, or
      its machine went down).
    - `message` is the message of the condition with this outcome. If the job has not ended, it is the reason why the
      job has no running pods, or "".
    - `stalled` is the message of the condition Stalled, if this condition is true, or of a failure because of
      `progressDeadlineSeconds`.
    - `behind` are the replicas that the message in `stalled` names.
    - `overdue` is True if the job failed because of `activeDeadlineSeconds`.
    - `late` is True if the job failed because of `startDeadlineSeconds`.
    - `backoff_limit` is `spec.runPolicy.backoffLimit`.
    - `full_disk` is a folder of the run on a disk that is full, or "" if the disk has space or this is unknown.
    - `apart` are the replicas that train, if none of them has opened the port that TF_CONFIG gives it. In this case no
      replica can connect to another.
    - `usage` is a text about the time that a job used, if the job has ended.
    - `resized` has a text about each of the last changes of the number of workers, with the cost of the change (the
      seconds without training), if the job has ended.
    - `taken` are the replicas that the job lost by disruptions.
    - `together` is True for `restartScope: Job`.
    - `evaluator_in_cluster` is True if the cluster in TF_CONFIG contains an evaluator.
    - `no_number` is the message of the condition Diverged: a reported loss is NaN or infinite.
    - `quiet_seconds` is the time since the last log line of any replica when the time limit was reached, or None if
      it is unknown.
    """

    namespace: str
    name: str
    outcome: str
    message: str = ""
    stalled: str = ""
    behind: tuple[str, ...] = ()
    overdue: bool = False
    late: bool = False
    backoff_limit: int | None = None
    full_disk: str = ""
    apart: tuple[str, ...] = ()
    typed: Typed = Typed.MANIFEST
    usage: str = ""
    resized: tuple[str, ...] = ()
    taken: tuple[TakenReplica, ...] = ()
    together: bool = False
    evaluator_in_cluster: bool = False
    no_number: str = ""
    quiet_seconds: float | None = None
    replicas: tuple[ReplicaFacts, ...] = ()
