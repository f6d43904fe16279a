"""The metadata store, whose methods are one transaction each, which may run more than once; and lineage in it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.pipeline.store.executions import Executions
from tfoperator.pipeline.store.postgresql import PostgreSQL
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord
from tfoperator.pipeline.store.runs import Runs
from tfoperator.pipeline.store.sqlite_file import SQLiteFile

_MAX_ARTIFACTS = 1000
"""Maximum number of artifacts in one direction, to bound the tree."""
_DEEPEST = 100
"""Maximum depth: a model trained on for ever has endless ancestors, but Python's calls and JSON's levels are
limited."""


class MetadataStore(Runs, Executions, AbstractContextManager[Any]):
    """Artifacts, executions and runs. Thread-safe; several processes may share the database.

    With `read_only` it creates nothing, and every write is a StoreError. Writes for a run name the `term` of the lease
    under which they are made. Once another holder has taken the lease over, they raise OwnershipLost.
    """

    def __init__(self, place: Path | str, *, read_only: bool = False) -> None:
        """Open a file, or with a text libpq's URL. Raises StoreError, ComponentError."""
        made = SQLiteFile(place, read_only=read_only) if isinstance(place, Path) else None
        self.database = made or PostgreSQL(str(place), read_only=read_only)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.database.close()


class Lineage(msgspec.Struct, frozen=True):
    """One artifact, its executions, and the next artifacts: the other inputs or outputs of these; as far as known.

    `repeated`: it is elsewhere in the tree, with its subtree. `cut`: its subtree is not
    followed, since the tree has reached its limit.
    """

    artifact: ArtifactRecord
    executions: tuple[ExecutionRecord, ...] = ()
    next: tuple[Lineage, ...] = ()
    repeated: bool = False
    cut: bool = False


def lineage_of(store: MetadataStore, artifact: ArtifactRecord, *, downstream: bool = False) -> Lineage:
    """Return its ancestors (its producer and, through the inputs of that, theirs), or its descendants."""
    return _follow(store, artifact, "INPUT" if downstream else "OUTPUT", set(), 0)


def _follow(store: MetadataStore, artifact: ArtifactRecord, direction: str, seen: set[int], depth: int) -> Lineage:
    if artifact.id in seen:
        return Lineage(artifact, repeated=True)
    if len(seen) >= _MAX_ARTIFACTS or depth >= _DEEPEST:
        return Lineage(artifact, cut=True)
    seen.add(artifact.id)
    # An execution that reused it is not its producer.
    executions = tuple([one for one in store.users_of(artifact.id, direction) if one.state != "CACHED"])
    found: dict[int, ArtifactRecord] = {}
    for execution in executions:
        side = execution.outputs if direction == "INPUT" else execution.inputs
        found |= {one.id: one for records in side.values() for one in records}
    further = tuple([_follow(store, one, direction, seen, depth + 1) for one in found.values()])
    return Lineage(artifact, executions, further)
