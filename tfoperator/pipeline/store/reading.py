"""The reads of the metadata store, and its rows as values."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, case, select

from tfoperator.pipeline.store.database import MAX_ID, Database, batched, database_seconds, reads
from tfoperator.pipeline.store.properties import properties_of
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, ExecutionState, Lease, Maker, RunRecord
from tfoperator.pipeline.store.tables import (
    ARTIFACT_STATES,
    EVENTS,
    EXECUTION_STATES,
    KINDS,
    artifact_properties,
    artifacts,
    associations,
    contexts,
    event_paths,
    events,
    execution_properties,
    executions,
    launches,
    leases,
    our_artifacts,
    our_executions,
    our_runs,
    types,
)

_USABLE = [EXECUTION_STATES.index(state) for state in ("COMPLETE", "CACHED")]

RUN, PIPELINE, NODE = "pipeline_run", "pipeline", "node"
"""Types of contexts."""


def type_named(name: str, kind: str) -> Any:
    """Return a query for the id of a type; `kind` is artifact, execution or context."""
    return select(types.c.id).where(types.c.name == name, types.c.type_kind == KINDS[kind], types.c.version.is_(None))


_RUN_OF = (
    select(contexts.c.name)
    .join(associations, associations.c.context_id == contexts.c.id)
    .where(associations.c.execution_id == executions.c.id)
    .where(contexts.c.type_id == type_named(RUN, "context").scalar_subquery())
    .correlate(executions)
    .scalar_subquery()
    .label("run")
)
"""The run of an execution, none if that was removed."""
EXECUTIONS = (
    select(executions, types.c.name.label("kind"), our_executions, _RUN_OF)
    .join(types, types.c.id == executions.c.type_id)
    .join(our_executions, our_executions.c.execution_id == executions.c.id)
)
_USES = EXECUTIONS.add_columns(events.c.artifact_id).join(events, events.c.execution_id == executions.c.id)
ARTIFACTS = (
    select(artifacts, types.c.name.label("type"), our_artifacts.c.made)
    .join(types, types.c.id == artifacts.c.type_id)
    .outerjoin(our_artifacts, our_artifacts.c.artifact_id == artifacts.c.id)
)
_LEFT = case((leases.c.holder != "", leases.c.until - database_seconds()), else_=0.0).label("left")
_LEASE = [_LEFT if name == "left" else leases.c[name] for name in Lease.__struct_fields__]
RUNS = (
    select(our_runs.c.record, *_LEASE)
    .join(contexts, contexts.c.id == our_runs.c.context_id)
    .outerjoin(leases, leases.c.name == contexts.c.name)
)


def context_named(kind: str, name: str) -> Any:
    """Return a query for the id of a context."""
    return (
        select(contexts.c.id)
        .join(types, types.c.id == contexts.c.type_id)
        .where(types.c.name == kind, types.c.type_kind == KINDS["context"], contexts.c.name == name)
    )


def executions_in(kind: str, name: str) -> Any:
    """Return a query for the executions in a context."""
    wanted = EXECUTIONS.join(associations, associations.c.execution_id == executions.c.id)
    return wanted.where(associations.c.context_id == context_named(kind, name).scalar_subquery())


class Reads:
    """The reads of a store, each a transaction; see `MetadataStore`."""

    database: Database

    @reads
    def run(self, db: Connection, run_id: str) -> RunRecord | None:
        """Return a run by its id."""
        row = db.execute(RUNS.where(contexts.c.id == context_named(RUN, run_id).scalar_subquery())).first()
        return None if row is None else run_record(row)

    @reads
    def runs(self, db: Connection, pipeline: str = "", *, most: int | None = None) -> list[RunRecord]:
        """Return all runs, or those of a pipeline; the newest first, at most `most` in total."""
        found = [run_record(row) for row in db.execute(RUNS.order_by(contexts.c.id.desc()).limit(most))]
        return [run for run in found if pipeline in ("", run.pipeline)]

    @reads
    def lease(self, db: Connection, name: str) -> Lease:
        """Return the lease of a run, or of RUN/STEP, as it is now."""
        row = db.execute(select(*_LEASE).where(leases.c.name == name)).first()
        return Lease() if row is None else Lease(*row)

    @reads
    def launch(self, db: Connection, run_id: str, step: str) -> bytes | None:
        """Return the record of a step's launch."""
        query = select(launches.c.record).where(launches.c.run == run_id, launches.c.step == step)
        text = db.execute(query).scalar()
        return None if text is None else text.encode()

    @reads
    def executions(
        self, db: Connection, run_id: str, steps: Collection[str] | None = None
    ) -> dict[str, ExecutionRecord]:
        """Return the executions of a run by step; the last one of each, or of each of `steps`."""
        wanted, step = executions_in(RUN, run_id).order_by(executions.c.id), our_executions.c.step
        parts = [wanted] if steps is None else [wanted.where(step.in_(some)) for some in batched([*steps])]
        records = [one for part in parts for one in execution_records(db, part)]
        return {one.step: one for one in records}

    @reads
    def execution_states(self, db: Connection, run_ids: Sequence[str]) -> dict[str, dict[str, ExecutionState]]:
        """Return, by run, the states of its executions by step: the data for a list of runs."""
        found: dict[str, dict[str, ExecutionState]] = {one: {} for one in run_ids}
        wanted = (
            select(contexts.c.name.label("run"), our_executions.c.step, executions.c.last_known_state)
            .join(associations, associations.c.context_id == contexts.c.id)
            .join(executions, executions.c.id == associations.c.execution_id)
            .join(our_executions, our_executions.c.execution_id == executions.c.id)
            .where(contexts.c.type_id == type_named(RUN, "context").scalar_subquery())
            .order_by(executions.c.id)
        )
        for some in batched(run_ids):
            for row in db.execute(wanted.where(contexts.c.name.in_(some))):
                found[row.run][row.step] = EXECUTION_STATES[row.last_known_state]
        return found

    @reads
    def usable(self, db: Connection, pipeline: str, step: str, cache_key: str) -> list[ExecutionRecord]:
        """Return the successful executions of a pipeline's step with this cache key, the newest first."""
        wanted = (
            executions_in(PIPELINE, pipeline)
            .where(our_executions.c.cache_key == cache_key, our_executions.c.step == step)
            .where(executions.c.last_known_state.in_(_USABLE))
            .order_by(executions.c.id.desc())
        )
        return execution_records(db, wanted)

    @reads
    def artifacts(self, db: Connection, wanted: str) -> list[ArtifactRecord]:
        """Return artifacts by id or URI, the newest first."""
        found = artifacts.c.uri == wanted.replace("\0", "")
        if wanted.isascii() and wanted.isdigit() and len(wanted) <= len(str(MAX_ID)) and int(wanted) <= MAX_ID:
            found = found | (artifacts.c.id == int(wanted))
        return artifact_records(db, ARTIFACTS.where(found).order_by(artifacts.c.id.desc()))

    @reads
    def users_of(self, db: Connection, artifact: int, direction: str) -> list[ExecutionRecord]:
        """Return the executions that have read (`INPUT`) or made (`OUTPUT`) an artifact."""
        wanted = _USES.where(events.c.artifact_id == artifact, events.c.type == EVENTS[direction])
        return execution_records(db, wanted.order_by(executions.c.id))

    @reads
    def makers(self, db: Connection, artifact_ids: Sequence[int]) -> dict[int, Maker]:
        """Return, by artifact, the execution that made it, if there is one. One that reused it is not its producer."""
        cached = executions.c.last_known_state == EXECUTION_STATES.index("CACHED")
        wanted = _USES.where(events.c.type == EVENTS["OUTPUT"], ~cached)
        found: dict[int, Maker] = {}
        for some in batched(artifact_ids):
            for row in db.execute(wanted.where(events.c.artifact_id.in_(some))):
                found[row.artifact_id] = Maker(row.run or "", row.step)
        return found


def run_record(row: Any) -> RunRecord:
    """Return a row of RUNS as a value."""
    known = {name: value for name, value in json.loads(row.record).items() if value is not None}
    run = msgspec.convert(known, RunRecord)
    return run if row.term is None else msgspec.structs.replace(run, lease=Lease(*row[1:]))


def artifact_records(db: Connection, wanted: Any) -> list[ArtifactRecord]:
    """Return what a query of ARTIFACTS finds as values."""
    rows = db.execute(wanted).all()
    properties = properties_of(db, artifact_properties, [row.id for row in rows])
    return [
        ArtifactRecord(
            row.id,
            row.type,
            row.uri or "",
            ARTIFACT_STATES[row.state or 0],
            properties.get(row.id, {}),
            moment(row.create_time_since_epoch),
            bool(row.made),
        )
        for row in rows
    ]


def execution_records(db: Connection, wanted: Any) -> list[ExecutionRecord]:
    """Return what a query of EXECUTIONS finds as values, with their artifacts: some queries for some hundreds."""
    rows = db.execute(wanted).all()
    used = select(events, event_paths.c.step_index, event_paths.c.step_key).join(
        event_paths, (event_paths.c.event_id == events.c.id) & ~event_paths.c.is_index_step
    )
    paths: list[Row[Any]] = []
    for some in batched([row.id for row in rows]):
        paths += db.execute(used.where(events.c.execution_id.in_(some)).order_by(event_paths.c.step_index, events.c.id))
    known: dict[int, ArtifactRecord] = {}
    for some in batched(sorted({path.artifact_id for path in paths})):
        known |= {one.id: one for one in artifact_records(db, ARTIFACTS.where(artifacts.c.id.in_(some)))}
    sides: dict[tuple[int, int], dict[str, tuple[ArtifactRecord, ...]]] = defaultdict(dict)
    for path in paths:
        if path.artifact_id in known:
            side = sides[path.execution_id, path.type]
            side[path.step_key] = (*side.get(path.step_key, ()), known[path.artifact_id])
    properties = properties_of(db, execution_properties, [row.id for row in rows])
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
            moment(row.create_time_since_epoch),
            moment(row.last_update_time_since_epoch) if EXECUTION_STATES[row.last_known_state] != "RUNNING" else None,
        )
        for row in rows
    ]


def moment(milliseconds: int) -> datetime:
    """Return a time of a row."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
