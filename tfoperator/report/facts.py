"""What is known of a job that has failed, stalled or taken too long: the input of `make_report`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

TAIL_LINES = 2000
"""Lines at the end of a log that are worth reading: a traceback through a Keras model has some hundred."""

TAIL_BYTES = 512 * 1024
"""Bytes at the end of a log that are read at most."""


POD_GONE = "its pod is gone"
"""The `detail` of a replica of which only its kept logs are left."""


class FinalState(StrEnum):
    """What a replica was doing in the end. STOPPED: it ran until it was told to go, which says nothing of its work."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    NEVER_RAN = "NeverRan"


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the container that matters of a replica.

    `exit_code` is None while it goes on, or if nobody saw its end. `reason` is the kubelet's word, such as OOMKilled.
    `stopped`: it had been told to go, so its exit code says nothing. `tail` are the last lines of its log, and `log` is
    where all of it is. `peak_memory` is in bytes; `kernel` is what the kernel's log says of its end.
    """

    exit_code: int | None = None
    reason: str = ""
    ended: datetime | None = None
    stopped: bool = False
    tail: tuple[str, ...] = ()
    log: str = ""
    peak_memory: int | None = None
    kernel: str = ""

    @property
    def failed(self) -> bool:
        """Whether it ended badly by itself."""
        return self.exit_code not in (None, 0) and not self.stopped


class ReplicaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one replica: `name` is such as worker-1, `runs` are in order of time, the last one last.

    `detail` says what it waits for, if it waits. `restarts` counts runs that nothing else is known of, too.
    `memory_limit` is in bytes. `stacks` is where stacks of its Python threads are kept, `no_stacks`
    a sentence that says why they aren't, if they were asked for.
    """

    name: str
    pod: str = ""
    state: FinalState = FinalState.WAITING
    detail: str = ""
    restarts: int = 0
    restart_policy: str = ""
    memory_limit: int | None = None
    runs: tuple[RunFacts, ...] = ()
    stacks: str = ""
    no_stacks: str = ""

    @property
    def last_run(self) -> RunFacts | None:
        """The run that was the last, or goes on."""
        return self.runs[-1] if self.runs else None


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job and its replicas.

    `outcome` is one word: Running, Succeeded, Failed, TimedOut, Interrupted. `message` is that of the condition which
    says so. `stalled` is the message of the condition Stalled while that is true, and `behind` are the replicas that it
    names. `overdue`: it failed since its `activeDeadlineSeconds` were over. `backoff_limit` is the job's.
    `full_disk` is a folder of the run on a disk that is full; empty if there is room, or nobody knows.
    """

    namespace: str
    name: str
    outcome: str
    message: str = ""
    stalled: str = ""
    behind: tuple[str, ...] = ()
    overdue: bool = False
    backoff_limit: int | None = None
    full_disk: str = ""
    replicas: tuple[ReplicaFacts, ...] = ()
