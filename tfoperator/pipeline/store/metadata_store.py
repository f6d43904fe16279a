"""The metadata store, and the lineage of artifacts.

Each method of the store is one transaction. The store retries a transaction if the database does not answer.
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
"""The maximum number of artifacts in the tree of `lineage_of`."""
_DEEPEST = 100
"""The maximum depth of the tree of `lineage_of`. The tree can be deep: if each run continues the training of the last
model, a model has many ancestors. Python limits the depth of recursive calls, and JSON readers limit the number of
levels.
"""


class MetadataStore(Runs, Executions, AbstractContextManager[Any]):
    """A store of artifacts, executions and runs. Thread-safe. Several processes may use the database at the same time.

    With `read_only`, the store creates nothing, and every write raises StoreError. A write for a run names the `term`
    of the writer's lease (`RunRecord.term`). If another runner has taken over the lease, the term of the lease has
    increased, and the write raises OwnershipLost.
    """

    def __init__(self, place: Path | str, *, read_only: bool = False) -> None:
        """Open the store at a place: a Path of a SQLite file, or the URL of a PostgreSQL database in libpq's format.

        Raises StoreError if the store can't be opened, and ComponentError if the user must give another place or
        install psycopg.
        """
        made = SQLiteFile(place, read_only=read_only) if isinstance(place, Path) else None
        self.database = made or PostgreSQL(str(place), read_only=read_only)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.database.close()


class Lineage(msgspec.Struct, frozen=True):
    """A node in the tree of `lineage_of`: an artifact, its executions, and the next nodes.

    In a tree of ancestors, `executions` are the executions that made the artifact, and `next` has their inputs. In a
    tree of descendants, `executions` are the executions that read the artifact, and `next` has their outputs. If
    `repeated` is True, the artifact is elsewhere in the tree, with its subtree. If `cut` is True, the subtree is
    missing, because the tree has reached its maximum size or depth.
    """

    artifact: ArtifactRecord
    executions: tuple[ExecutionRecord, ...] = ()
    next: tuple[Lineage, ...] = ()
    repeated: bool = False
    cut: bool = False


def lineage_of(store: MetadataStore, artifact: ArtifactRecord, *, downstream: bool = False) -> Lineage:
    """Return the tree of an artifact's ancestors: its producer, the producer's inputs, their producers, and so on.

    With `downstream`, return the tree of its descendants: its readers, their outputs, and so on.
    """
    return _follow(store, artifact, "INPUT" if downstream else "OUTPUT", set(), 0)


def _follow(store: MetadataStore, artifact: ArtifactRecord, direction: str, visited: set[int], depth: int) -> Lineage:
    if artifact.id in visited:
        return Lineage(artifact, repeated=True)
    if len(visited) >= _MAX_ARTIFACTS or depth >= _DEEPEST:
        return Lineage(artifact, cut=True)
    visited.add(artifact.id)
    # An execution in the state CACHED only reused its outputs, so it is not their producer.
    executions = tuple([user for user in store.users_of(artifact.id, direction) if user.state != "CACHED"])
    artifacts: dict[int, ArtifactRecord] = {}
    for execution in executions:
        side = execution.outputs if direction == "INPUT" else execution.inputs
        artifacts |= {record.id: record for records in side.values() for record in records}
    further = tuple([_follow(store, relative, direction, visited, depth + 1) for relative in artifacts.values()])
    return Lineage(artifact, executions, further)
