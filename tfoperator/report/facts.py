"""The facts about a job that has failed, stalled or taken too long: the input of `make_report`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

TAIL_LINES = 2000
"""The number of lines at the end of a log that are read. A traceback through a Keras model has some hundred lines."""

TAIL_BYTES = 512 * 1024
"""The maximum number of bytes read at the end of a log."""


KILLED = 137
"""The exit code of a process that SIGKILL ended."""

POD_GONE = "its pod is gone"
"""The `detail` of a replica for which only its kept logs remain."""


NO_POD = "it has no pod, and the job does not show the reason. Next: check that the operator is running"
"""The `detail` of a replica that has no pod, if the job's conditions show no reason."""


class Typed(StrEnum):
    """The form in which the user gave the job. Advice uses the terms of this form."""

    MANIFEST = "manifest"
    PROGRAM = "program"
    FUNCTION = "function"


class FinalState(StrEnum):
    """The final state of a replica. STOPPED: the replica ran until it was stopped, so its exit code does not count."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    NEVER_RAN = "NeverRan"


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a replica's training container.

    `exit_code` is None while the container runs, or if the operator did not observe its end. `reason` is the kubelet's
    reason for the end, such as OOMKilled. `stopped` is true if the container was stopped, so its exit code does not
    count. `tail` is the last lines of its log, and `log` is the location of the whole log. `peak_memory` is in bytes.
    `kernel` is the message in the kernel's log about its end. `kernel_silent` is true if the kernel's log was read and
    has no such message.
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
        """Whether the run got the signal to stop, had not ended after its grace period, and was killed."""
        return self.stopped and self.exit_code == KILLED

    @property
    def failed(self) -> bool:
        """Whether the run failed by itself."""
        return self.exit_code not in (None, 0) and not self.stopped


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a replica.

    `name` is a name such as worker-1. `runs` are in the order of time, with the last run at the end. `detail` is the
    reason why the replica waits, and a next step. `restarts` also counts runs about which there are no other facts.
    `disruptions` is the number of these restarts that followed a disruption. `memory_limit` is in bytes. `stacks` is
    the location of the stacks of its Python threads. `no_stacks` is the reason (a sentence) if the stacks were
    requested and are missing. `waits_at` is a place in the user's own files: there, the replica's main thread was when
    the stacks were taken.
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
    """A disruption: the replica that the job lost, the cause (with the node's name), and the time of the event."""

    replica: str
    cause: str
    when: datetime


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a job and its replicas.

    `outcome` is one of these words: Running, Pending, Succeeded, Failed, TimedOut, Interrupted. `message` is the
    message of the condition with this outcome. `stalled` is the message of the condition Stalled, if this condition is
    true. `behind` are the replicas that the message names. `overdue` is true if the job failed because its
    `activeDeadlineSeconds` were over. `late` is true if it failed because its `startDeadlineSeconds` were over.
    `backoff_limit` is the job's backoff limit. `full_disk` is a folder of the run on a disk that is full. It is empty
    if the disk has space, or if this is unknown. `apart` are the replicas that train, if all of them left their ports
    closed. The replicas find each other at these ports, which TF_CONFIG names. `usage` shows how the job spent its
    time, if the job has ended. `taken` are the replicas that the job lost by a disruption, with the cause. `together`
    is true if the job's replicas are restarted together (`restartScope: Job`). `evaluator_in_cluster` is true if the
    cluster in TF_CONFIG contains an evaluator. If a reported loss is not a number, `no_number` is the message about
    this. `quiet_seconds` is for how many seconds no replica had written to its log when the time limit was reached. It
    is None if this is unknown.
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
    taken: tuple[TakenReplica, ...] = ()
    together: bool = False
    evaluator_in_cluster: bool = False
    no_number: str = ""
    quiet_seconds: float | None = None
    replicas: tuple[ReplicaFacts, ...] = ()
