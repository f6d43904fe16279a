"""Artifacts, executions and runs as values. The names of the states are those that ML Metadata uses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

ArtifactState = Literal["PENDING", "LIVE", "ABANDONED", "DELETED"]
"""PENDING: it will be written. LIVE: it exists. ABANDONED: its execution failed. DELETED: the command `clean` removed
it.
"""

ExecutionState = Literal["RUNNING", "COMPLETE", "CACHED", "FAILED", "CANCELED"]

RunState = Literal["running", "succeeded", "failed", "interrupted", "cancelled"]
"""interrupted: a container of the run may still be running, until the next run, `stop` or `--resume` handles it."""


class ArtifactRecord(msgspec.Struct, frozen=True):
    """A piece of data, which a step has made or reads.

    `made` is true if the data existed at its URI on this machine when it was published.
    """

    id: int
    type: str
    uri: str
    state: ArtifactState
    properties: dict[str, Any] = {}
    created: datetime | None = None
    made: bool = False


class ExecutionRecord(msgspec.Struct, frozen=True):
    """An execution of a step. An output that is new has no id."""

    id: int
    run_id: str
    step: str
    kind: str
    state: ExecutionState
    message: str = ""
    cache_key: str = ""
    image_id: str = ""
    exec_properties: dict[str, Any] = {}
    inputs: Mapping[str, tuple[ArtifactRecord, ...]] = {}
    outputs: Mapping[str, tuple[ArtifactRecord, ...]] = {}
    began: datetime | None = None
    ended: datetime | None = None


class Maker(msgspec.Struct, frozen=True):
    """The producer of an artifact. `run` is empty if the run was removed."""

    run: str
    step: str


class RecordedLease(msgspec.Struct, frozen=True):
    """The lease of a run or step at the time at which it was read.

    `term` is the number of holders so far. `holder` is "" if the lease has no holder. `kernel` identifies a machine
    since its last boot. On that machine, the holder of the lease also holds a lock of the kernel. So a process that
    gets the lock can be sure that an earlier holder on the same machine is dead. `until` is the end of the lease in
    seconds since 1970. `left` is the number of seconds that were left at the time of the read. Both are by the
    database's clock.
    """

    term: int = 0
    holder: str = ""
    until: float = 0.0
    left: float = 0.0
    host: str = ""
    process: int = 0
    kernel: str = ""

    @property
    def overdue(self) -> bool:
        """Whether the holder has not renewed the lease in time.

        Then the holder hangs, is gone, or can't reach the store.
        """
        return bool(self.holder) and self.left <= 0

    @property
    def end(self) -> datetime:
        """The time at which the lease expires, by the database's clock, unless it is renewed."""
        return datetime.fromtimestamp(self.until, UTC)


class RunRecord(msgspec.Struct, frozen=True):
    """A run of a pipeline. `steps` are the steps of the run in order, each with its predecessors.

    `place` is the address of the run's platform. It is needed to stop the run's containers. `term` is the term of the
    run's lease, under which the record is written. `step_terms` are the terms of the leases of steps that are launched
    one by one. `lease` is read, but never written with the record.
    """

    id: str
    pipeline: str
    state: RunState
    root: str
    fingerprint: str
    began: datetime
    ended: datetime | None = None
    message: str = ""
    steps: dict[str, tuple[str, ...]] = {}
    source: str = ""
    parameters: dict[str, Any] = {}
    place: dict[str, str] = {}
    term: int = 0
    step_terms: dict[str, int] = {}
    lease: RecordedLease = RecordedLease()

    @property
    def over(self) -> bool:
        """Whether the run has ended and can't continue."""
        return self.state not in ("running", "interrupted")

    @property
    def owner(self) -> RecordedLease | None:
        """The run's lease as it was read. It is None if the run is over, or if the lease has no holder."""
        return self.lease if not self.over and self.lease.holder else None
