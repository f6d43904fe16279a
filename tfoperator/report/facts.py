"""The facts about a job that has failed, stalled or taken too long: the input of `make_report`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

TAIL_LINES = 2000
"""Lines at the end of a log that are worth reading: a traceback through a Keras model has some hundred."""

TAIL_BYTES = 512 * 1024
"""The maximum number of bytes read at the end of a log."""


KILLED = 137
"""The exit code of a process that SIGKILL ended."""

POD_GONE = "its pod is gone"
"""The `detail` of a replica of which only its kept logs remain."""


NO_POD = "it has no pod, and the job does not show the reason. Next: check that the operator is running"
"""The `detail` of a replica without a pod, if the conditions give no reason for that."""


class Typed(StrEnum):
    """The form in which a person gave the job: advice uses the words of this form."""

    MANIFEST = "manifest"
    PROGRAM = "program"
    FUNCTION = "function"


class FinalState(StrEnum):
    """The final state of a replica. STOPPED: it ran until somebody stopped it, so its exit code does not count."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    NEVER_RAN = "NeverRan"


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a replica's training container.

    `exit_code` is None while it runs, or if its end was not observed. `reason` is the kubelet's, such as OOMKilled.
    `stopped`: something stopped it, so its exit code does not count. `tail` are the last lines of its log, and `log` is
    the location of the whole. `peak_memory` is in bytes; `kernel` is the kernel log's message about its end, and
    `kernel_silent` means that the kernel's log was read and has no such message.
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
        """Whether it got the signal to stop, had not ended when its grace period was over, and was killed."""
        return self.stopped and self.exit_code == KILLED

    @property
    def failed(self) -> bool:
        """Whether it failed by itself."""
        return self.exit_code not in (None, 0) and not self.stopped


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one replica: `name` is such as worker-1, `runs` are in order of time, the last one last.

    `detail` is the reason why it waits, with a next step. `restarts` includes runs without other facts, and
    `disruptions` of them followed after disruptions. `memory_limit` is in bytes. `stacks` is the location of the stacks
    of its Python threads, `no_stacks` the reason (a sentence) if they were requested and are missing. `waits_at` is the
    place in the user's own files where its main thread was when the stacks were taken.
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
        """The last run, which may still go on."""
        return self.runs[-1] if self.runs else None


class TakenReplica(msgspec.Struct, frozen=True):
    """A disruption: the replica that was taken from the job, the cause (with the node's name), and the event's time."""

    replica: str
    cause: str
    when: datetime


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a job and its replicas.

    `outcome` is one word: Running, Pending, Succeeded, Failed, TimedOut, Interrupted. `message` is the message of the
    condition with this outcome. `stalled` is the message of the condition Stalled while that is true, and `behind` are
    the replicas that it names. `overdue`: it failed because its `activeDeadlineSeconds` were over; `late`: because its
    `startDeadlineSeconds` were over. `backoff_limit` is the job's. `full_disk` is a folder of the run on a disk that is
    full; empty if there is room, or that is unknown. `apart` are the replicas that train, if all of them left their
    ports closed: TF_CONFIG names these ports, at which the replicas find each other. `usage` shows how the job spent
    its time, if it has ended. `taken` are the replicas that were taken from the job, with the cause. `together`: its
    replicas are restarted together (`restartScope: Job`). `evaluator_in_cluster`: TF_CONFIG's cluster has an evaluator.
    `no_number` is the message that a reported loss is no number, while that is so. `quiet_seconds` is how long no
    replica had written to its log when the time was up; None if that is unknown.
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
