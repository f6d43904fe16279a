"""The building blocks of the metadata store's transactions: functions over one connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Insert, Row, insert, select, update

from tfoperator.launcher import OwnershipLost
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, RunRecord, StepOutcome
from tfoperator.pipeline.store.tables import (
    artifacts,
    associations,
    contexts,
    events,
    executions,
    types,
)

T = TypeVar("T")

_MAX_VARIABLES = 500
"""Variables of one statement; SQLite's limit was 999 before 3.32."""

RUN = "run"
PIPELINE = "pipeline"
"""Types of contexts."""

EXECUTIONS = select(executions, types.c.name.label("kind")).join(types, types.c.id == executions.c.type_id)
ARTIFACTS = select(artifacts, types.c.name.label("type")).join(types, types.c.id == artifacts.c.type_id)


def inserted(db: Connection, statement: Insert) -> int:
    """Insert one row; return its id."""
    key = db.execute(statement).inserted_primary_key
    assert key is not None
    return int(key[0])


def type_named(name: str, kind: str) -> Any:
    """Return a query for the id of a type; `kind` is artifact, execution or context."""
    return select(types.c.id).where(types.c.name == name, types.c.type_kind == kind)


def type_id_of(db: Connection, name: str, kind: str) -> int:
    """Return the id of a type, which is created if necessary."""
    known = db.execute(type_named(name, kind)).scalar()
    if known is None:
        return inserted(db, insert(types).values(name=name, type_kind=kind))
    return int(known)


def context_named(kind: str, name: str) -> Any:
    """Return a query for a context."""
    return (
        select(contexts)
        .join(types, types.c.id == contexts.c.type_id)
        .where(types.c.name == kind, types.c.type_kind == "context", contexts.c.name == name)
    )


def context_id(db: Connection, kind: str, name: str, properties: dict[str, Any], now: datetime) -> int:
    """Return the id of a context, which is created if necessary."""
    known = db.execute(context_named(kind, name)).first()
    if known is not None:
        return int(known.id)
    values = {"type_id": type_id_of(db, kind, "context"), "name": name, "properties": properties}
    return inserted(db, insert(contexts).values(**values, create_time=now.isoformat()))


def fence(db: Connection, run: RunRecord) -> None:
    """Raise OwnershipLost if a runner of a later term has written for this run."""
    row = db.execute(context_named(RUN, run.id)).first()
    if row is not None and row.properties.get("term", 0) > run.term:
        raise OwnershipLost(f"run {run.id}: another runner has taken it over, and goes on with it")


def executions_in(db: Connection, context: int, run_id: str) -> list[ExecutionRecord]:
    """Return the executions of a context, the oldest first."""
    wanted = EXECUTIONS.join(associations, associations.c.execution_id == executions.c.id)
    rows = db.execute(wanted.where(associations.c.context_id == context).order_by(executions.c.id)).all()
    return execution_records(db, rows, run_id)


def run_of(db: Connection, number: int) -> str:
    """Return the id of the run that an execution belongs to, "" if that was removed."""
    wanted = (
        select(contexts.c.name)
        .join(associations, associations.c.context_id == contexts.c.id)
        .where(
            associations.c.execution_id == number, contexts.c.type_id == type_named(RUN, "context").scalar_subquery()
        )
    )
    return str(db.execute(wanted).scalar() or "")


def new_execution(
    db: Connection,
    run: RunRecord,
    context: int,
    step: str,
    kind: str,
    state: str,
    cache_key: str,
    properties: dict[str, Any],
    now: datetime,
) -> int:
    """Create an execution; return its id."""
    values = {
        "type_id": type_id_of(db, kind, "execution"),
        "name": step,
        "last_known_state": state,
        "cache_key": cache_key,
        "properties": properties,
        "create_time": now.isoformat(),
    }
    number = inserted(db, insert(executions).values(**values))
    for one in (context, context_id(db, PIPELINE, run.pipeline, {}, now)):
        db.execute(insert(associations).values(execution_id=number, context_id=one))
    return number


def new_artifact(
    db: Connection,
    type_name: str,
    uri: str,
    state: str,
    properties: Mapping[str, Any],
    now: datetime,
    *,
    made: bool = False,
) -> int:
    """Create an artifact; return its id."""
    values = {
        "type_id": type_id_of(db, type_name, "artifact"),
        "uri": uri,
        "state": state,
        "properties": dict(properties),
        "made": made,
        "create_time": now.isoformat(),
    }
    return inserted(db, insert(artifacts).values(**values))


def add_events(db: Connection, execution: int, direction: str, name: str, numbers: Sequence[int]) -> None:
    """Record that an execution reads or makes artifacts."""
    for position, number in enumerate(numbers):
        db.execute(
            insert(events).values(
                artifact_id=number, execution_id=execution, type=direction, name=name, position=position
            )
        )


def settle_output(
    db: Connection, execution: int, name: str, before: Sequence[ArtifactRecord], outcome: StepOutcome
) -> None:
    """Replace planned outputs by the actual ones; a planned one that does not exist is abandoned."""
    if outcome.state == "RUNNING":
        set_state(db, before, "PENDING")
        return
    if outcome.state != "COMPLETE":
        set_state(db, before, "ABANDONED")
        return
    now = outcome.outputs.get(name, ())
    for position, (uri, properties, made) in enumerate(now):
        if position < len(before):
            values = {"uri": uri, "properties": dict(properties), "state": "LIVE", "made": made}
            db.execute(update(artifacts).where(artifacts.c.id == before[position].id).values(**values))
            continue
        new = new_artifact(db, before[0].type, uri, "LIVE", properties, outcome.at, made=made)
        values = {"artifact_id": new, "execution_id": execution, "type": "OUTPUT", "name": name}
        db.execute(insert(events).values(**values, position=position))
    set_state(db, before[len(now) :], "ABANDONED")


def set_state(db: Connection, records: Sequence[ArtifactRecord], state: str) -> None:
    """Set the state of artifacts."""
    db.execute(update(artifacts).where(artifacts.c.id.in_([one.id for one in records])).values(state=state))


def artifact_record(row: Row[Any]) -> ArtifactRecord:
    """Return a row of ARTIFACTS as a value."""
    created = datetime.fromisoformat(row.create_time)
    return ArtifactRecord(row.id, row.type, row.uri, row.state, row.properties, created, row.made)


def execution_record(db: Connection, row: Row[Any], run_id: str) -> ExecutionRecord:
    """Return a row of EXECUTIONS as a value, with its artifacts."""
    return execution_records(db, [row], run_id)[0]


def execution_records(db: Connection, rows: Sequence[Row[Any]], run_id: str) -> list[ExecutionRecord]:
    """Return the same for several rows: one query for the artifacts of some hundreds."""
    wanted = (
        select(
            artifacts,
            types.c.name.label("type"),
            events.c.execution_id.label("execution"),
            events.c.type.label("direction"),
            events.c.name.label("path"),
        )
        .join(events, events.c.artifact_id == artifacts.c.id)
        .join(types, types.c.id == artifacts.c.type_id)
        .order_by(events.c.id)
    )
    sides: dict[tuple[int, str], dict[str, tuple[ArtifactRecord, ...]]] = defaultdict(dict)
    for some in batched([row.id for row in rows]):
        for one in db.execute(wanted.where(events.c.execution_id.in_(some))):
            known = sides[one.execution, one.direction]
            known[one.path] = (*known.get(one.path, ()), artifact_record(one))
    return [
        ExecutionRecord(
            row.id,
            run_id,
            row.name,
            row.kind,
            row.last_known_state,
            row.properties.get("message", ""),
            row.cache_key,
            row.properties.get("image_id", ""),
            row.properties.get("exec_properties", {}),
            sides[row.id, "INPUT"],
            sides[row.id, "OUTPUT"],
            datetime.fromisoformat(row.create_time),
            datetime.fromisoformat(row.last_update_time) if row.last_update_time else None,
        )
        for row in rows
    ]


def batched(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield parts of a sequence that are short enough for the variables of one statement."""
    return (values[start : start + _MAX_VARIABLES] for start in range(0, len(values), _MAX_VARIABLES))
