"""Artifacts, executions and runs as values. States are ML Metadata's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

ArtifactState = Literal["PENDING", "LIVE", "ABANDONED", "DELETED"]
"""PENDING: to be written; LIVE: exists; ABANDONED: its execution failed; DELETED: removed by `clean`."""

ExecutionState = Literal["RUNNING", "COMPLETE", "CACHED", "FAILED", "CANCELED"]

RunState = Literal["running", "succeeded", "failed", "interrupted", "cancelled"]
"""interrupted: a container of it may still run, until the next run, `stop` or `--resume` handles it."""


class ArtifactRecord(msgspec.Struct, frozen=True):
    """A piece of data. `made`: it existed at its URI, on this machine, when it was published."""

    id: int
    type: str
    uri: str
    state: ArtifactState
    properties: dict[str, Any] = {}
    created: datetime | None = None
    made: bool = False


class ExecutionRecord(msgspec.Struct, frozen=True):
    """One execution of a step. Outputs that are new have no id."""

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
    """The producer of an artifact; `run` is empty if it was removed."""

    run: str
    step: str


class Lease(msgspec.Struct, frozen=True):
    """The lease of a run or step, as read. `term` counts the holders; `holder` is "" if there is none.

    `kernel` identifies a machine since its last start. There, a holder of the lease also holds a lock of the kernel, so
    an earlier holder there is dead. `until` is in seconds since 1970, `left` in seconds at the time of the read; both
    by the database's clock.
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
        """Whether its holder has not renewed it in time: it hangs, is gone, or can't reach the store."""
        return bool(self.holder) and self.left <= 0

    @property
    def end(self) -> datetime:
        """When it expires, in the database's time, unless it is renewed."""
        return datetime.fromtimestamp(self.until, UTC)


class RunRecord(msgspec.Struct, frozen=True):
    """One run of a pipeline. `steps` are its steps in order; each with its predecessors.

    `place` is the address of its platform, to stop its containers. `term` is the term of the run's lease, under which
    it is written, and `step_terms` are the terms of steps that are launched one by one. `lease` is only read.
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
    lease: Lease = Lease()

    @property
    def over(self) -> bool:
        """Whether it has ended and can't go on."""
        return self.state not in ("running", "interrupted")

    @property
    def owner(self) -> Lease | None:
        """Its lease as it was read, None if it is over or has no holder."""
        return self.lease if not self.over and self.lease.holder else None
