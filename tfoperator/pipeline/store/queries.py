"""The writes of the metadata store's transactions: functions over one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Insert, insert, select, update

from tfoperator.launcher import OwnershipLost
from tfoperator.pipeline.store.database import exclusively, named
from tfoperator.pipeline.store.properties import put_properties
from tfoperator.pipeline.store.reading import NODE, PIPELINE, RUN, context_named, type_named
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, RunRecord
from tfoperator.pipeline.store.tables import (
    ARTIFACT_STATES,
    EVENTS,
    EXECUTION_STATES,
    KINDS,
    artifact_properties,
    artifacts,
    associations,
    attributions,
    contexts,
    event_paths,
    events,
    execution_properties,
    executions,
    leases,
    our_artifacts,
    our_executions,
    parent_contexts,
    types,
)


def inserted(db: Connection, statement: Insert) -> int:
    """Insert one row; return its id."""
    key = db.execute(statement).inserted_primary_key
    assert key is not None
    return int(key[0])


def _only(db: Connection, query: Any, make: Callable[[], int]) -> int:
    """Return the id that a query finds; if there is none, make the row, of which there is one only."""
    known = db.execute(query).scalar()
    if known is None:
        exclusively(db)
        known = db.execute(query).scalar()
    return make() if known is None else int(known)


def type_id_of(db: Connection, name: str, kind: str) -> int:
    """Return the id of a type, which is created if necessary."""
    new = insert(types).values(name=named(name), type_kind=KINDS[kind])
    return _only(db, type_named(name, kind), lambda: inserted(db, new))


def context_id(db: Connection, kind: str, name: str, now: datetime, *parents: int) -> int:
    """Return the id of a context, which is created if necessary, as a child of others."""
    name = named(name)

    def make() -> int:
        type_id = type_id_of(db, kind, "context")
        number = inserted(db, insert(contexts).values(type_id=type_id, name=name, **_times(now)))
        for parent in parents:
            db.execute(insert(parent_contexts).values(context_id=number, parent_context_id=parent))
        return number

    return _only(db, context_named(kind, name), make)


def run_contexts(db: Connection, run: RunRecord, now: datetime) -> tuple[int, int]:
    """Return the contexts of a run and of its pipeline."""
    pipeline = context_id(db, PIPELINE, run.pipeline, now)
    return context_id(db, RUN, run.id, now, pipeline), pipeline


def fence(db: Connection, run: RunRecord) -> None:
    """Raise OwnershipLost if another has taken over the lease of the run, or of a step, under which it is written.

    Until the end of the transaction nobody can take it.
    """
    wanted = {named(run.id): run.term} | {f"{run.id}/{step}": term for step, term in run.step_terms.items()}
    query = select(leases.c.name, leases.c.term).where(leases.c.name.in_(list(wanted))).order_by(leases.c.name)
    for row in db.execute(query.with_for_update()):
        if row.term > wanted[row.name]:
            raise OwnershipLost(f"run {run.id}: another runner has taken it over, and goes on with it")


def new_execution(db: Connection, run: RunRecord, new: ExecutionRecord, now: datetime) -> tuple[int, list[int]]:
    """Create an execution, without its inputs and outputs; return its id, and its contexts."""
    type_id = type_id_of(db, new.kind, "execution")
    values = {"type_id": type_id, "last_known_state": EXECUTION_STATES.index(new.state), **_times(now)}
    number = inserted(db, insert(executions).values(**values))
    ours = {"execution_id": number, "step": named(new.step), "cache_key": new.cache_key, "image_id": new.image_id}
    db.execute(insert(our_executions).values(**ours, message='""'))
    put_properties(db, execution_properties, number, type_id, new.exec_properties, new=True)
    context, pipeline = run_contexts(db, run, now)
    within = [context, pipeline, context_id(db, NODE, f"{run.pipeline}.{new.step}", now, pipeline)]
    db.execute(insert(associations), [{"execution_id": number, "context_id": one} for one in within])
    return number, within


def new_artifact(db: Connection, new: ArtifactRecord, now: datetime, within: Iterable[int] = ()) -> int:
    """Create an artifact in some contexts; return its id."""
    type_id = type_id_of(db, new.type, "artifact")
    values = {"type_id": type_id, "uri": new.uri, "state": ARTIFACT_STATES.index(new.state), **_times(now)}
    number = inserted(db, insert(artifacts).values(**values))
    db.execute(insert(our_artifacts).values(artifact_id=number, made=new.made))
    put_properties(db, artifact_properties, number, type_id, new.properties, new=True)
    if within:
        db.execute(insert(attributions), [{"artifact_id": number, "context_id": one} for one in within])
    return number


def add_events(
    db: Connection, execution: int, direction: str, paths: Sequence[tuple[str, int, int]], now: datetime
) -> None:
    """Record that an execution reads or makes artifacts: name, position and artifact of each.

    ML Metadata has one event for an artifact, with a path of steps: here name and position for each of its uses. It
    reads only one value of a row of a path; ours has both in the row of the name, as rows have no order.
    """
    for artifact in dict.fromkeys(artifact for _, _, artifact in paths):
        values = {"artifact_id": artifact, "execution_id": execution, "type": EVENTS[direction]}
        event = inserted(db, insert(events).values(**values, milliseconds_since_epoch=milliseconds(now)))
        uses = [(name, position) for name, position, number in paths if number == artifact]
        rows = [(event, position, index, None if index else name) for name, position in uses for index in (False, True)]
        columns = ("event_id", "step_index", "is_index_step", "step_key")
        db.execute(insert(event_paths), [dict(zip(columns, row, strict=True)) for row in rows])


def settle_output(
    db: Connection, name: str, before: Sequence[ArtifactRecord], outcome: ExecutionRecord, at: datetime
) -> None:
    """Replace planned outputs by the actual ones; a planned one that does not exist is abandoned."""
    if outcome.state != "COMPLETE":
        set_state(db, before, "PENDING" if outcome.state == "RUNNING" else "ABANDONED")
        return
    now = outcome.outputs.get(name, ())
    for old, new in zip(before, now, strict=False):
        row, live = artifacts.c.id == old.id, ARTIFACT_STATES.index("LIVE")
        values = {"uri": new.uri, "state": live, "last_update_time_since_epoch": milliseconds(at)}
        db.execute(update(artifacts).where(row).values(**values))
        if new.made != old.made:
            db.execute(update(our_artifacts).where(our_artifacts.c.artifact_id == old.id).values(made=new.made))
        if new.properties != old.properties:
            type_id = db.execute(select(artifacts.c.type_id).where(row)).scalar_one()
            put_properties(db, artifact_properties, old.id, type_id, new.properties)
    for position, new in enumerate(now[len(before) :], len(before)):
        query = select(attributions.c.context_id).where(attributions.c.artifact_id == before[0].id)
        within = list(db.execute(query).scalars())
        made = new_artifact(db, msgspec.structs.replace(new, type=before[0].type), at, within)
        add_events(db, outcome.id, "OUTPUT", [(name, position, made)], at)
    set_state(db, before[len(now) :], "ABANDONED")


def set_state(db: Connection, records: Sequence[ArtifactRecord], state: str) -> None:
    """Set the state of artifacts."""
    if records:
        chosen = artifacts.c.id.in_([one.id for one in records])
        db.execute(update(artifacts).where(chosen).values(state=ARTIFACT_STATES.index(state)))


def _times(now: datetime) -> dict[str, int]:
    return dict.fromkeys(("create_time_since_epoch", "last_update_time_since_epoch"), milliseconds(now))


def milliseconds(now: datetime) -> int:
    """Return a time as rows have it."""
    return round(now.timestamp() * 1000)
