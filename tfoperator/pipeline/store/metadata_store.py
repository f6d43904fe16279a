"""Reads and writes of the metadata store. Each public method is one transaction, whose body may run more than once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from tfoperator.launcher import Artifact
from tfoperator.pipeline.store.database import Database, StoreError, Transactions, atomic
from tfoperator.pipeline.store.queries import (
    ARTIFACTS,
    EXECUTIONS,
    PIPELINE,
    RUN,
    add_events,
    artifact_record,
    batched,
    context_id,
    context_named,
    execution_record,
    executions_in,
    fence,
    new_artifact,
    new_execution,
    run_of,
    settle_output,
    type_named,
)
from tfoperator.pipeline.store.records import (
    ArtifactRecord,
    ExecutionRecord,
    ExecutionState,
    Maker,
    RunRecord,
    StepOutcome,
)
from tfoperator.pipeline.store.tables import (
    artifacts,
    associations,
    attributions,
    contexts,
    events,
    executions,
    parent_contexts,
    types,
)

__all__ = ["MetadataStore", "StoreError"]

_USABLE = ("COMPLETE", "CACHED")


class MetadataStore:
    """Artifacts, executions and runs. Thread-safe; several processes may share the database.

    With `read_only` nothing is created, and every write is a StoreError. Writes for a run name its `term`, the
    number of its runner. Once a later runner has written, an earlier one's writes raise OwnershipLost.
    """

    def __init__(self, database: Path | Transactions, *, read_only: bool = False) -> None:
        """Opens a file, or another database. Raises StoreError."""
        self.database: Transactions = (
            Database(database, read_only=read_only) if isinstance(database, Path) else database
        )

    def __enter__(self) -> MetadataStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    # Runs.

    @atomic
    def put_run(self, db: Connection, run: RunRecord) -> None:
        """Record a run, or its changed state. Raises OwnershipLost."""
        plain = msgspec.to_builtins(run)
        fence(db, run)
        known = db.execute(context_named(RUN, run.id)).first()
        if known is not None:
            db.execute(update(contexts).where(contexts.c.id == known.id).values(properties=plain))
            return
        pipeline = context_id(db, PIPELINE, run.pipeline, {}, run.began)
        child = context_id(db, RUN, run.id, plain, run.began)
        db.execute(insert(parent_contexts).values(context_id=child, parent_context_id=pipeline))

    @atomic
    def run(self, db: Connection, run_id: str) -> RunRecord | None:
        """Return a run by its id."""
        row = db.execute(context_named(RUN, run_id)).first()
        return None if row is None else msgspec.convert(row.properties, RunRecord)

    @atomic
    def runs(self, db: Connection, pipeline: str = "", *, most: int | None = None) -> list[RunRecord]:
        """Return all runs, or those of a pipeline; the newest first, at most `most` in total."""
        wanted = (
            select(contexts)
            .join(types, types.c.id == contexts.c.type_id)
            .where(types.c.name == RUN, types.c.type_kind == "context")
            .order_by(contexts.c.id.desc())
            .limit(most)
        )
        found = [msgspec.convert(row.properties, RunRecord) for row in db.execute(wanted)]
        return [run for run in found if pipeline in ("", run.pipeline)]

    @atomic
    def forget_run(self, db: Connection, run_id: str) -> None:
        """Remove a run from the list. Its artifacts stay known: other runs may have used them."""
        row = db.execute(context_named(RUN, run_id)).first()
        if row is not None:
            for table in (associations, attributions, parent_contexts):
                db.execute(delete(table).where(table.c.context_id == row.id))
            db.execute(delete(contexts).where(contexts.c.id == row.id))

    # Executions.

    @atomic
    def executions(self, db: Connection, run_id: str) -> dict[str, ExecutionRecord]:
        """Return the executions of a run by step; the last one of each."""
        row = db.execute(context_named(RUN, run_id)).first()
        return {} if row is None else {one.step: one for one in executions_in(db, row.id, run_id)}

    @atomic
    def execution_states(self, db: Connection, run_ids: Sequence[str]) -> dict[str, dict[str, ExecutionState]]:
        """Return, by run, the states of its executions by step: the data for a list of runs."""
        found: dict[str, dict[str, ExecutionState]] = {one: {} for one in run_ids}
        wanted = (
            select(contexts.c.name.label("run"), executions.c.name, executions.c.last_known_state)
            .join(associations, associations.c.context_id == contexts.c.id)
            .join(executions, executions.c.id == associations.c.execution_id)
            .where(contexts.c.type_id == type_named(RUN, "context").scalar_subquery())
            .order_by(executions.c.id)
        )
        for some in batched(run_ids):
            for row in db.execute(wanted.where(contexts.c.name.in_(some))):
                found[row.run][row.name] = row.last_known_state
        return found

    @atomic
    def execution(self, db: Connection, number: int) -> ExecutionRecord | None:
        """Return an execution by its id."""
        row = db.execute(EXECUTIONS.where(executions.c.id == number)).first()
        return None if row is None else execution_record(db, row, run_of(db, number))

    @atomic
    def makers(self, db: Connection, artifact_ids: Sequence[int]) -> dict[int, Maker]:
        """Return, by artifact, the execution that made it, if there is one. One that reused it is not its producer."""
        run = contexts.alias("run")
        wanted = (
            select(events.c.artifact_id, executions.c.id, executions.c.name, run.c.name.label("run"))
            .join(executions, executions.c.id == events.c.execution_id)
            .outerjoin(
                associations.join(run, associations.c.context_id == run.c.id),
                (associations.c.execution_id == executions.c.id)
                & (run.c.type_id == type_named(RUN, "context").scalar_subquery()),
            )
            .where(events.c.type == "OUTPUT", executions.c.last_known_state != "CACHED")
        )
        found: dict[int, Maker] = {}
        for some in batched(artifact_ids):
            for row in db.execute(wanted.where(events.c.artifact_id.in_(some))):
                found[row.artifact_id] = Maker(row.id, row.run or "", row.name)
        return found

    @atomic
    def begin_execution(
        self,
        db: Connection,
        run: RunRecord,
        step: str,
        kind: str,
        inputs: Mapping[str, Sequence[int]],
        outputs: Mapping[str, tuple[str, str]],
        exec_properties: Mapping[str, Any],
        cache_key: str,
        now: datetime,
    ) -> ExecutionRecord:
        """Return a new execution. `inputs` are ids of artifacts, `outputs` type and URI.

        An unfinished one of this step is returned unchanged: its launcher was killed before it had a
        record.
        """
        fence(db, run)
        context = db.execute(context_named(RUN, run.id)).one().id
        for known in executions_in(db, context, run.id):
            if known.step == step and known.state == "RUNNING":
                return known
        properties = {"exec_properties": dict(exec_properties)}
        number = new_execution(db, run, context, step, kind, "RUNNING", cache_key, properties, now)
        for name, numbers in inputs.items():
            add_events(db, number, "INPUT", name, numbers)
        for name, (type_name, uri) in outputs.items():
            made = new_artifact(db, type_name, uri, "PENDING", {}, now)
            add_events(db, number, "OUTPUT", name, [made])
            db.execute(insert(attributions).values(artifact_id=made, context_id=context))
        return execution_record(db, db.execute(EXECUTIONS.where(executions.c.id == number)).one(), run.id)

    @atomic
    def use_again(
        self, db: Connection, run: RunRecord, step: str, kind: str, earlier: ExecutionRecord, now: datetime
    ) -> ExecutionRecord:
        """Return an execution that did not run: it reuses the outputs of an earlier one."""
        fence(db, run)
        context = db.execute(context_named(RUN, run.id)).one().id
        properties = {"exec_properties": earlier.exec_properties, "image_id": earlier.image_id}
        number = new_execution(db, run, context, step, kind, "CACHED", earlier.cache_key, properties, now)
        db.execute(update(executions).where(executions.c.id == number).values(last_update_time=now.isoformat()))
        for direction, known in (("INPUT", earlier.inputs), ("OUTPUT", earlier.outputs)):
            for name, records in known.items():
                add_events(db, number, direction, name, [one.id for one in records])
        return execution_record(db, db.execute(EXECUTIONS.where(executions.c.id == number)).one(), run.id)

    @atomic
    def usable(self, db: Connection, pipeline: str, step: str, cache_key: str) -> list[ExecutionRecord]:
        """Return the successful executions of a pipeline's step with this cache key, the newest first."""
        wanted = (
            EXECUTIONS.join(associations, associations.c.execution_id == executions.c.id)
            .join(contexts, contexts.c.id == associations.c.context_id)
            .where(contexts.c.name == pipeline, contexts.c.type_id == type_named(PIPELINE, "context").scalar_subquery())
            .where(executions.c.cache_key == cache_key, executions.c.name == step)
            .where(executions.c.last_known_state.in_(_USABLE))
            .order_by(executions.c.id.desc())
        )
        return [execution_record(db, row, "") for row in db.execute(wanted)]

    @atomic
    def publish(self, db: Connection, number: int, outcome: StepOutcome, run: RunRecord | None = None) -> None:
        """Record the outcome of an execution, of `run`. Idempotent. Raises OwnershipLost."""
        if run is not None:
            fence(db, run)
        row = db.execute(EXECUTIONS.where(executions.c.id == number)).first()
        if row is None:
            raise StoreError(f"execution {number} is not in the metadata store")
        properties = {
            **row.properties,
            "message": outcome.message,
            "image_id": outcome.image_id,
            "exec_properties": outcome.exec_properties or row.properties.get("exec_properties", {}),
        }
        ended = None if outcome.state == "RUNNING" else outcome.at.isoformat()
        db.execute(
            update(executions)
            .where(executions.c.id == number)
            .values(last_known_state=outcome.state, properties=properties, last_update_time=ended)
        )
        known = execution_record(db, row, "").outputs
        for name, before in known.items():
            settle_output(db, number, name, before, outcome)

    # Artifacts.

    @atomic
    def external_artifact(self, db: Connection, type_name: str, artifact: Artifact, now: datetime) -> int:
        """Return the id of an artifact made by no step; the same for the same type, URI and properties."""
        rows = db.execute(ARTIFACTS.where(artifacts.c.uri == artifact.uri, types.c.name == type_name))
        same = [row.id for row in rows if row.properties == artifact.properties]
        made_by_steps = {
            row.artifact_id
            for row in db.execute(
                select(events.c.artifact_id).where(events.c.artifact_id.in_(same), events.c.type == "OUTPUT")
            )
        }
        free = [number for number in same if number not in made_by_steps]
        return free[0] if free else new_artifact(db, type_name, artifact.uri, "LIVE", artifact.properties, now)

    @atomic
    def artifacts(self, db: Connection, wanted: str) -> list[ArtifactRecord]:
        """Return artifacts by id or URI, the newest first."""
        found = artifacts.c.uri == wanted
        if wanted.isascii() and wanted.isdigit() and len(wanted) < 19:
            found = found | (artifacts.c.id == int(wanted))
        return [artifact_record(row) for row in db.execute(ARTIFACTS.where(found).order_by(artifacts.c.id.desc()))]

    @atomic
    def users_of(self, db: Connection, artifact: int, direction: str) -> list[ExecutionRecord]:
        """Return the executions that have read (`INPUT`) or made (`OUTPUT`) an artifact."""
        wanted = (
            EXECUTIONS.join(events, events.c.execution_id == executions.c.id)
            .where(events.c.artifact_id == artifact, events.c.type == direction)
            .order_by(executions.c.id)
            .distinct()
        )
        return [execution_record(db, row, run_of(db, row.id)) for row in db.execute(wanted)]

    @atomic
    def mark_deleted(self, db: Connection, uris: Sequence[str]) -> None:
        """Record that the data at these URIs was removed: it is never reused."""
        db.execute(update(artifacts).where(artifacts.c.uri.in_(uris)).values(state="DELETED"))
