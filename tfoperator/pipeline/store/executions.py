"""Reads and writes executions and artifacts, and converts rows into values."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, insert, select, update

from tfoperator.pipeline.store.database import MAX_ID, Database, StoreError, exclusively, named, reads, writes
from tfoperator.pipeline.store.properties import has_value, properties_of, put_properties
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, Maker, RunRecord
from tfoperator.pipeline.store.runs import (
    EXECUTIONS,
    NODE,
    PIPELINE,
    RUN,
    context_id,
    context_named,
    executions_in,
    fence,
    inserted,
    milliseconds,
    run_contexts,
    times,
    type_id_of,
)
from tfoperator.pipeline.store.tables import (
    ARTIFACT_STATES,
    EVENTS,
    EXECUTION_STATES,
    artifact_properties,
    artifacts,
    associations,
    attributions,
    event_paths,
    events,
    execution_properties,
    executions,
    our_artifacts,
    our_executions,
    types,
)

_RUNNING = EXECUTION_STATES.index("RUNNING")
_USABLE = [EXECUTION_STATES.index(state) for state in ("COMPLETE", "CACHED")]
_USES = EXECUTIONS.add_columns(events.c.artifact_id).join(events, events.c.execution_id == executions.c.id)
_PATHS = select(events, event_paths.c.step_index, event_paths.c.step_key).join(
    event_paths, (event_paths.c.event_id == events.c.id) & ~event_paths.c.is_index_step
)
_ARTIFACTS = (
    select(artifacts, types.c.name.label("type"), our_artifacts.c.made)
    .join(types, types.c.id == artifacts.c.type_id)
    .outerjoin(our_artifacts, our_artifacts.c.artifact_id == artifacts.c.id)
)


class Executions:
    """The executions and artifacts of a store; see `MetadataStore`."""

    database: Database

    @reads
    def executions(
        self, db: Connection, run_id: str, steps: Collection[str] | None = None
    ) -> dict[str, ExecutionRecord]:
        """Return the last execution of each step of a run, by step.

        With `steps`, return only the executions of these steps.
        """
        wanted = executions_in(RUN, run_id).order_by(executions.c.id)
        if steps is not None:
            wanted = wanted.where(our_executions.c.step.in_(steps))
        return {record.step: record for record in _execution_records(db, wanted)}

    @reads
    def usable(self, db: Connection, pipeline: str, step: str, cache_key: str) -> list[ExecutionRecord]:
        """Return a pipeline's successful executions of a step with this cache key, the newest first, from all runs."""
        wanted = (
            executions_in(PIPELINE, pipeline)
            .where(our_executions.c.cache_key == cache_key, our_executions.c.step == step)
            .where(executions.c.last_known_state.in_(_USABLE))
            .order_by(executions.c.id.desc())
        )
        return _execution_records(db, wanted)

    @reads
    def users_of(self, db: Connection, artifact: int, direction: str) -> list[ExecutionRecord]:
        """Return the executions that have an artifact as an input (`INPUT`) or output (`OUTPUT`), by `direction`.

        An execution in the state `CACHED` has reused its outputs, and is also returned for `OUTPUT`.
        """
        wanted = _USES.where(events.c.artifact_id == artifact, events.c.type == EVENTS[direction])
        return _execution_records(db, wanted.order_by(executions.c.id))

    @reads
    def makers(self, db: Connection, run_id: str) -> dict[int, Maker]:
        """Return the known producers (run and step) of all artifacts that a run has read or made, by artifact id.

        An execution in the state `CACHED` only reused its outputs, so the execution does not count as their producer.
        """
        used = select(events.c.artifact_id).where(_event_of(executions_in(RUN, run_id))).correlate(None)
        cached = executions.c.last_known_state == EXECUTION_STATES.index("CACHED")
        wanted = _USES.where(events.c.type == EVENTS["OUTPUT"], ~cached, events.c.artifact_id.in_(used))
        return {row.artifact_id: Maker(row.run or "", row.step) for row in db.execute(wanted)}

    @writes
    def begin_execution(self, db: Connection, run: RunRecord, new: ExecutionRecord, now: datetime) -> ExecutionRecord:
        """Create an execution with its artifacts, and return it.

        `new` has the state RUNNING, CACHED or FAILED. Artifacts of `new` without an id are created. If the step already
        has an execution in this state in the run, return that execution unchanged: a launcher that was killed has
        created it. Raises OwnershipLost.
        """
        fence(db, run)
        state = EXECUTION_STATES.index(new.state)
        query = (
            executions_in(RUN, run.id)
            .where(our_executions.c.step == named(new.step), executions.c.last_known_state == state)
            .order_by(executions.c.id.desc())
        )
        if existing := _execution_records(db, query.limit(1)):
            return existing[0]
        type_id = type_id_of(db, new.kind, "execution")
        number = inserted(db, insert(executions).values(type_id=type_id, last_known_state=state, **times(now)))
        ours = {"step": new.step, "cache_key": new.cache_key, "image_id": new.image_id}
        ours |= {"message": json.dumps(new.message)}
        db.execute(insert(our_executions).values(execution_id=number, **ours))
        put_properties(db, execution_properties, number, type_id, new.exec_properties)
        context, pipeline = run_contexts(db, run, now)
        within = [context, pipeline, context_id(db, NODE, f"{run.pipeline}.{new.step}", now, pipeline)]
        db.execute(
            insert(associations), [{"execution_id": number, "context_id": context_number} for context_number in within]
        )
        for direction, side in (("INPUT", new.inputs), ("OUTPUT", new.outputs)):
            paths = [
                (name, at, record.id or _new_artifact(db, record, now, within))
                for name, records in side.items()
                for at, record in enumerate(records)
            ]
            _add_events(db, number, direction, paths, now)
        return _execution(db, number)

    @writes
    def publish(self, db: Connection, run: RunRecord, outcome: ExecutionRecord, at: datetime) -> None:
        """Record the outcome of an execution. Idempotent. Raises OwnershipLost.

        If `outcome` has the state RUNNING, record that the execution continues.
        """
        fence(db, run)
        before, row = _execution(db, outcome.id), executions.c.id == outcome.id
        state, now = EXECUTION_STATES.index(outcome.state), milliseconds(at)
        db.execute(update(executions).where(row).values(last_known_state=state, last_update_time_since_epoch=now))
        ours = {"message": json.dumps(outcome.message), "image_id": outcome.image_id}
        db.execute(update(our_executions).where(our_executions.c.execution_id == outcome.id).values(**ours))
        if outcome.exec_properties and outcome.exec_properties != before.exec_properties:
            type_id = db.execute(select(executions.c.type_id).where(row)).scalar_one()
            put_properties(db, execution_properties, outcome.id, type_id, outcome.exec_properties)
        for name, records in before.outputs.items():
            _settle_output(db, name, records, outcome, at)

    # Artifacts.

    @reads
    def artifacts(self, db: Connection, wanted: str) -> list[ArtifactRecord]:
        """Return the artifacts whose id or URI is `wanted`, the newest first."""
        condition = artifacts.c.uri == wanted.replace("\0", "")
        if wanted.isascii() and wanted.isdigit() and len(wanted) <= len(str(MAX_ID)) and int(wanted) <= MAX_ID:
            condition = condition | (artifacts.c.id == int(wanted))
        return _artifact_records(db, _ARTIFACTS.where(condition).order_by(artifacts.c.id.desc()))

    @reads
    def newest_artifacts(
        self, db: Connection, run: RunRecord, kind: str, wanted: Mapping[str, Any]
    ) -> list[ArtifactRecord]:
        """Return a list with the newest artifact of type `kind` that the run's pipeline made before the run began.

        If there is no such artifact, the list is empty. `wanted` has the values that the artifact must have: `uri`, and
        `properties.NAME` for each property. The number 1 matches 1 and 1.0. Only artifacts in the state LIVE count.
        """
        pipeline = context_named(PIPELINE, run.pipeline).scalar_subquery()
        made_here = select(attributions.c.artifact_id).where(attributions.c.context_id == pipeline)
        query = _ARTIFACTS.where(
            types.c.name == named(kind),
            artifacts.c.state == ARTIFACT_STATES.index("LIVE"),
            artifacts.c.last_update_time_since_epoch < milliseconds(run.began),
            artifacts.c.id.in_(made_here),
            *[_has(field, value) for field, value in wanted.items()],
        )
        newest = query.order_by(artifacts.c.last_update_time_since_epoch.desc(), artifacts.c.id.desc()).limit(1)
        return _artifact_records(db, newest)

    @writes
    def external_artifact(self, db: Connection, one: ArtifactRecord, now: datetime) -> ArtifactRecord:
        """Return the record of `one`, an artifact that no step has made. The record has an id.

        If the store has an artifact with the same type, URI and properties, return this artifact. Otherwise create it.
        """
        exclusively(db)
        made = select(events.c.id).where(events.c.artifact_id == artifacts.c.id, events.c.type == EVENTS["OUTPUT"])
        wanted = _ARTIFACTS.where(artifacts.c.uri == one.uri, types.c.name == named(one.type), ~made.exists())
        alike = [record for record in _artifact_records(db, wanted) if record.properties == one.properties]
        return alike[0] if alike else msgspec.structs.replace(one, id=_new_artifact(db, one, now))

    @writes
    def mark_deleted(self, db: Connection, uris: Sequence[str]) -> None:
        """Set the state of the artifacts at these URIs to DELETED. Then steps never reuse these artifacts."""
        for uri in uris:
            db.execute(_with_state(artifacts.c.uri == uri, "DELETED"))


def _execution(db: Connection, number: int) -> ExecutionRecord:
    if not (records := _execution_records(db, EXECUTIONS.where(executions.c.id == number))):
        raise StoreError(f"execution {number} is not in the metadata store")
    return records[0]


def _has(field: str, value: Any) -> ColumnElement[bool]:
    """Return an SQL condition: an artifact has this value in a field, which is `uri` or `properties.NAME`."""
    if field == "uri":
        return artifacts.c.uri == str(value).replace("\0", "")
    owned = select(artifact_properties.c.name).where(
        artifact_properties.c.artifact_id == artifacts.c.id,
        artifact_properties.c.name == field.removeprefix("properties."),
    )
    return owned.where(has_value(value)).exists()


def _event_of(wanted: Select[Any]) -> ColumnElement[bool]:
    """Return an SQL condition: an event belongs to one of the executions that the query `wanted` finds."""
    return events.c.execution_id.in_(wanted.with_only_columns(executions.c.id))


def _artifact_records(db: Connection, wanted: Select[Any]) -> list[ArtifactRecord]:
    """Return the artifacts that a query finds, as values."""
    rows = db.execute(wanted).all()
    properties = properties_of(db, artifact_properties, wanted.with_only_columns(artifacts.c.id))
    return [
        ArtifactRecord(
            row.id,
            row.type,
            row.uri or "",
            ARTIFACT_STATES[row.state or 0],
            properties.get(row.id, {}),
            _moment(row.create_time_since_epoch),
            bool(row.made),
        )
        for row in rows
    ]


def _execution_records(db: Connection, wanted: Select[Any]) -> list[ExecutionRecord]:
    """Return the executions that a query finds, as values with their artifacts."""
    rows, theirs = db.execute(wanted).all(), _event_of(wanted)
    paths = db.execute(_PATHS.where(theirs).order_by(event_paths.c.step_index, events.c.id)).all()
    used = _ARTIFACTS.where(artifacts.c.id.in_(select(events.c.artifact_id).where(theirs)))
    artifacts_by_id = {record.id: record for record in _artifact_records(db, used)}
    sides: dict[tuple[int, int], dict[str, tuple[ArtifactRecord, ...]]] = defaultdict(dict)
    for path in paths:
        if path.artifact_id in artifacts_by_id:
            side = sides[path.execution_id, path.type]
            side[path.step_key] = (*side.get(path.step_key, ()), artifacts_by_id[path.artifact_id])
    properties = properties_of(db, execution_properties, wanted.with_only_columns(executions.c.id))
    return [
        ExecutionRecord(
            row.id,
            row.run or "",
            row.step,
            row.kind,
            EXECUTION_STATES[row.last_known_state],
            json.loads(row.message),
            row.cache_key,
            row.image_id,
            properties.get(row.id, {}),
            sides[row.id, EVENTS["INPUT"]],
            sides[row.id, EVENTS["OUTPUT"]],
            _moment(row.create_time_since_epoch),
            _moment(row.last_update_time_since_epoch) if row.last_known_state != _RUNNING else None,
        )
        for row in rows
    ]


def _new_artifact(db: Connection, new: ArtifactRecord, now: datetime, within: Iterable[int] = ()) -> int:
    """Create an artifact, and return its id. `within` has the ids of its contexts: run, pipeline and step."""
    type_id = type_id_of(db, new.type, "artifact")
    values = {"type_id": type_id, "uri": new.uri, "state": ARTIFACT_STATES.index(new.state), **times(now)}
    number = inserted(db, insert(artifacts).values(**values))
    db.execute(insert(our_artifacts).values(artifact_id=number, made=new.made))
    put_properties(db, artifact_properties, number, type_id, new.properties)
    if within:
        db.execute(
            insert(attributions), [{"artifact_id": number, "context_id": context_number} for context_number in within]
        )
    return number


def _add_events(
    db: Connection, execution: int, direction: str, paths: Sequence[tuple[str, int, int]], now: datetime
) -> None:
    """Record that an execution reads (`direction` is `INPUT`) or makes (`OUTPUT`) artifacts.

    An item of `paths` has the name of an input or output, the position of an artifact in it, and the artifact's id. ML
    Metadata has one event for each artifact and execution. Each use of the artifact gets two rows in the table
    `eventpath`: a row with the name (`step_key`), and a row with the position (`step_index`). ML Metadata reads either
    the name or the position from a row. Our row with the name also contains the position, because the two rows are not
    connected in another way.
    """
    for artifact in dict.fromkeys(artifact for _, _, artifact in paths):
        values = {"artifact_id": artifact, "execution_id": execution, "type": EVENTS[direction]}
        event = inserted(db, insert(events).values(**values, milliseconds_since_epoch=milliseconds(now)))
        uses = [(name, position) for name, position, number in paths if number == artifact]
        rows = [(event, position, index, None if index else name) for name, position in uses for index in (False, True)]
        columns = ("event_id", "step_index", "is_index_step", "step_key")
        db.execute(insert(event_paths), [dict(zip(columns, row, strict=True)) for row in rows])


def _settle_output(
    db: Connection, name: str, before: Sequence[ArtifactRecord], outcome: ExecutionRecord, at: datetime
) -> None:
    """Replace the planned artifacts `before` of an output by the artifacts in `outcome`, with the state LIVE.

    If the execution is complete and the outcome has more artifacts, create the additional artifacts. All planned
    artifacts that have no replacement get the state PENDING while the execution runs, and ABANDONED when it has ended.
    """
    now = outcome.outputs.get(name, ()) if outcome.state == "COMPLETE" else ()
    for old, new in zip(before, now, strict=False):
        row = artifacts.c.id == old.id
        db.execute(_with_state(row, "LIVE").values(uri=new.uri, last_update_time_since_epoch=milliseconds(at)))
        if new.made != old.made:
            db.execute(update(our_artifacts).where(our_artifacts.c.artifact_id == old.id).values(made=new.made))
        if new.properties != old.properties:
            type_id = db.execute(select(artifacts.c.type_id).where(row)).scalar_one()
            put_properties(db, artifact_properties, old.id, type_id, new.properties)
    for position, new in enumerate(now[len(before) :], len(before)):
        query = select(attributions.c.context_id).where(attributions.c.artifact_id == before[0].id)
        within = list(db.execute(query).scalars())
        made = _new_artifact(db, msgspec.structs.replace(new, type=before[0].type), at, within)
        _add_events(db, outcome.id, "OUTPUT", [(name, position, made)], at)
    if rest := [record.id for record in before[len(now) :]]:
        db.execute(_with_state(artifacts.c.id.in_(rest), "PENDING" if outcome.state == "RUNNING" else "ABANDONED"))


def _with_state(chosen: Any, state: str) -> Any:
    return update(artifacts).where(chosen).values(state=ARTIFACT_STATES.index(state))


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
