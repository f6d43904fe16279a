"""Artifacts, executions and runs as values. Artifacts and executions have the states of ML Metadata."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

ArtifactState = Literal["PENDING", "LIVE", "ABANDONED", "DELETED"]
"""PENDING: an execution will write the artifact. LIVE: the artifact exists. ABANDONED: the execution failed. DELETED:
`tfoperator pipeline clean` removed the artifact's data.
"""

ExecutionState = Literal["RUNNING", "COMPLETE", "CACHED", "FAILED", "CANCELED"]

RunState = Literal["running", "succeeded", "failed", "interrupted", "cancelled"]
"""interrupted: a container of the run may still be running, until the next run, `stop` or `--resume` handles it."""


class ArtifactRecord(msgspec.Struct, frozen=True):
    """A piece of data, which a step has made or reads.

    `made` is True if the file, directory or objects existed at the URI when the runner recorded the artifact. `id` is 0
    before the store has created the record.
    """

    id: int
    type: str
    uri: str
    state: ArtifactState
    properties: dict[str, Any] = {}
    created: datetime | None = None
    made: bool = False


class ExecutionRecord(msgspec.Struct, frozen=True):
    """An execution of a step in a run, with its inputs and outputs by name. In a new record, the id is 0."""

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
    """The run and step that made an artifact. `run` is "" if the run was removed."""

    run: str
    step: str


class RecordedLease(msgspec.Struct, frozen=True):
    """The lease of a run or step at the time at which it was read.

    `term` is the number of holders so far. `holder` is "" if the lease has no holder. `until` is the end of the lease
    in seconds since 1970. `left` is the number of seconds that were left at the time of the read. `until` and `left`
    use the clock of the database.

    If `kernel` is set, it is the boot id of the holder's machine, and the holder also holds a file lock for the run.
    The kernel releases this lock when the holder dies. So another process of the holder's machine that gets the file
    lock knows that the holder is dead, and does not wait for the end of the lease.
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
        """Whether the lease has a holder and has expired: the holder is dead, hangs, or can't reach the store."""
        return bool(self.holder) and self.left <= 0

    @property
    def end(self) -> datetime:
        """The time at which the lease expires unless the holder renews the lease, by the clock of the database."""
        return datetime.fromtimestamp(self.until, UTC)


class RunRecord(msgspec.Struct, frozen=True):
    """A run of a pipeline.

    - `steps` are the steps of the run in order, each with its predecessors.
    - `place` has the settings with which a later process can reach the run's containers to stop them, such as
      `kubeconfig`, `context` and `namespace`.
    - The process that writes this record sets `term` to the term of the run's lease. A larger term in the store means
      that another process has taken over the run.
    - `step_terms` has the term of the lease of each step that this process runs, if Argo or Airflow launches the steps.
    - `lease` is the run's lease at the time of the read. It is never written with the record.
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
        """Whether the run has ended: its state is neither `running` nor `interrupted`."""
        return self.state not in ("running", "interrupted")

    @property
    def owner(self) -> RecordedLease | None:
        """The run's lease as it was read, or None if the run is over or the lease has no holder."""
        return self.lease if not self.over and self.lease.holder else None
