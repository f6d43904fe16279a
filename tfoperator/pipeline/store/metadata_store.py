"""The metadata store.

Each method is one transaction, which may run more than once. The module also has the lineage of artifacts.
"""

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
"""The maximum number of artifacts in one direction. It limits the size of the tree."""
_DEEPEST = 100
"""The maximum depth of the tree. If a model is trained again and again, it has endless ancestors, but Python limits the
depth of calls, and JSON readers limit the number of levels.
"""


class MetadataStore(Runs, Executions, AbstractContextManager[Any]):
    """A store of artifacts, executions and runs. Thread-safe. Several processes may use the database at the same time.

    With `read_only`, the store creates nothing, and every write raises StoreError. A write for a run contains the
    `term` of the lease under which it is made. If another holder has taken over the lease, the write raises
    OwnershipLost.
    """

    def __init__(self, place: Path | str, *, read_only: bool = False) -> None:
        """Open a file.

        If `place` is a text, it is the URL of a database in libpq's format. Raises StoreError or ComponentError.
        """
        made = SQLiteFile(place, read_only=read_only) if isinstance(place, Path) else None
        self.database = made or PostgreSQL(str(place), read_only=read_only)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.database.close()


class Lineage(msgspec.Struct, frozen=True):
    """An artifact, its executions, and the next artifacts in the tree.

    The next artifacts are the other inputs or outputs of these executions, as far as they are known. `repeated` is true
    if the artifact is elsewhere in the tree, with its subtree. `cut` is true if the subtree is left out, because the
    tree has reached its limit.
    """

    artifact: ArtifactRecord
    executions: tuple[ExecutionRecord, ...] = ()
    next: tuple[Lineage, ...] = ()
    repeated: bool = False
    cut: bool = False


def lineage_of(store: MetadataStore, artifact: ArtifactRecord, *, downstream: bool = False) -> Lineage:
    """Return the lineage of an artifact: its ancestors.

    They are its producer, the inputs of the producer, their producers, and so on. With `downstream`, return its
    descendants.
    """
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
