"""What an artifact was made from, and what was made from it."""

from __future__ import annotations

import msgspec

from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord

_MOST = 1000
"""Artifacts that are followed in one direction: a bound, not a rule."""
_DEEPEST = 100
"""From one to the next: a model that is trained on for ever has no end, but Python's calls and JSON's levels have."""


class Lineage(msgspec.Struct, frozen=True):
    """One artifact, the executions it was made by, and through their other side the next artifacts; as far as known.

    `repeated`: it is shown elsewhere in the tree, with all that belongs to it. `cut`: what comes behind is not
    followed, for the tree is as large as it may be.
    """

    artifact: ArtifactRecord
    executions: tuple[ExecutionRecord, ...] = ()
    next: tuple[Lineage, ...] = ()
    repeated: bool = False
    cut: bool = False


def lineage_of(store: MetadataStore, artifact: ArtifactRecord, *, downstream: bool = False) -> Lineage:
    """What it was made from (its origin and, through the inputs of that, theirs), or what was made from it."""
    return _follow(store, artifact, "INPUT" if downstream else "OUTPUT", set(), 0)


def _follow(store: MetadataStore, artifact: ArtifactRecord, direction: str, seen: set[int], depth: int) -> Lineage:
    if artifact.id in seen:
        return Lineage(artifact, repeated=True)
    if len(seen) >= _MOST or depth >= _DEEPEST:
        return Lineage(artifact, cut=True)
    seen.add(artifact.id)
    # One that used it again has made nothing.
    executions = tuple([one for one in store.users_of(artifact.id, direction) if one.state != "CACHED"])
    found: dict[int, ArtifactRecord] = {}
    for execution in executions:
        side = execution.outputs if direction == "INPUT" else execution.inputs
        found |= {one.id: one for records in side.values() for one in records}
    return Lineage(
        artifact, executions, tuple([_follow(store, one, direction, seen, depth + 1) for one in found.values()])
    )
