"""Reads and writes of the metadata store. Each public method is one transaction, whose body may run more than once."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from tfoperator.launcher import Artifact
from tfoperator.pipeline.store.database import Database, reads, writes
from tfoperator.pipeline.store.engines import exclusively, upsert
from tfoperator.pipeline.store.lease_table import LeaseTable
from tfoperator.pipeline.store.limits import MAX_ID, StoreError, batched, named
from tfoperator.pipeline.store.properties import put_properties
from tfoperator.pipeline.store.queries import (
    add_events,
    fence,
    forget_context,
    milliseconds,
    new_artifact,
    new_execution,
    run_contexts,
    run_text,
    settle_output,
)
from tfoperator.pipeline.store.reading import (
    ARTIFACTS,
    EXECUTIONS,
    PIPELINE,
    RUN,
    RUNS,
    artifact_records,
    context_named,
    execution_record,
    execution_records,
    executions_in,
    makers_of,
    run_of,
    run_record,
    states_by_step,
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
    ARTIFACT_STATES,
    EVENTS,
    EXECUTION_STATES,
    artifacts,
    associations,
    contexts,
    events,
    execution_properties,
    executions,
    launches,
    our_executions,
    our_runs,
    types,
)

_USABLE = [EXECUTION_STATES.index(state) for state in ("COMPLETE", "CACHED")]


class MetadataStore:
    """Artifacts, executions and runs. Thread-safe; several processes may share the database.

    With `read_only` nothing is created, and every write is a StoreError. Writes for a run name its `term`, that of the
    lease under which they are made. Once another has taken the lease over, they raise OwnershipLost.
    """

    def __init__(self, place: Path | str, *, read_only: bool = False) -> None:
        """Open a file, or with a text libpq's URL. Raises StoreError, ComponentError."""
        self.database = Database(place, read_only=read_only)
        self.leases = LeaseTable(self.database)

    def __enter__(self) -> MetadataStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    # Runs.

    @writes
    def put_run(self, db: Connection, run: RunRecord) -> None:
        """Record a run, or its changed state. Raises OwnershipLost."""
        fence(db, run)
        context, _ = run_contexts(db, run, run.began)
        values = upsert(db, our_runs).values(context_id=context, record=run_text(run))
        db.execute(values.on_conflict_do_update(index_elements=["context_id"], set_={"record": values.excluded.record}))

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

    @writes
    def forget_run(self, db: Connection, run_id: str) -> None:
        """Remove a run from the list. Its artifacts stay known: other runs may have used them."""
        number = db.execute(context_named(RUN, run_id)).scalar()
        if number is not None:
            forget_context(db, number)
        db.execute(delete(launches).where(launches.c.run == run_id))

    # Launches.

    @reads
    def launch(self, db: Connection, run_id: str, step: str) -> bytes | None:
        """Return the record of a step's launch."""
        query = select(launches.c.record).where(launches.c.run == run_id, launches.c.step == step)
        text = db.execute(query).scalar()
        return None if text is None else text.encode()

    @writes
    def put_launch(self, db: Connection, run: RunRecord, step: str, record: bytes | None) -> None:
        """Record a step's launch, or with None forget it. Raises OwnershipLost."""
        fence(db, run)
        db.execute(delete(launches).where(launches.c.run == run.id, launches.c.step == step))
        if record is not None:
            # Escapes, since not every database takes every character.
            text = json.dumps(json.loads(record))
            db.execute(insert(launches).values(run=run.id, step=step, record=text))

    # Executions.

    @reads
    def executions(
        self, db: Connection, run_id: str, steps: Collection[str] | None = None
    ) -> dict[str, ExecutionRecord]:
        """Return the executions of a run by step; the last one of each, or of each of `steps`."""
        return {one.step: one for one in executions_in(db, run_id, steps)}

    @reads
    def execution_states(self, db: Connection, run_ids: Sequence[str]) -> dict[str, dict[str, ExecutionState]]:
        """Return, by run, the states of its executions by step: the data for a list of runs."""
        return states_by_step(db, run_ids)

    @reads
    def execution(self, db: Connection, number: int) -> ExecutionRecord | None:
        """Return an execution by its id."""
        return execution_record(db, number)

    @reads
    def makers(self, db: Connection, artifact_ids: Sequence[int]) -> dict[int, Maker]:
        """Return, by artifact, the execution that made it, if there is one. One that reused it is not its producer."""
        return makers_of(db, artifact_ids)

    @writes
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

        An unfinished one of this step is returned unchanged: its launcher was killed before it had a record.
        """
        fence(db, run)
        known = self._last(db, run.id, step, "RUNNING")
        if known is not None:
            return known
        number, within = new_execution(db, run, step, kind, "RUNNING", cache_key, exec_properties, now)
        read = [(name, at, one) for name, numbers in inputs.items() for at, one in enumerate(numbers)]
        add_events(db, number, "INPUT", read, now)
        made = [
            (name, 0, new_artifact(db, type_name, uri, "PENDING", {}, now, within))
            for name, (type_name, uri) in outputs.items()
        ]
        add_events(db, number, "OUTPUT", made, now)
        return self._known(db, number, run)

    @writes
    def use_again(
        self, db: Connection, run: RunRecord, step: str, kind: str, earlier: ExecutionRecord, now: datetime
    ) -> ExecutionRecord:
        """Return an execution that did not run: it reuses the outputs of an earlier one. Idempotent."""
        fence(db, run)
        known = self._last(db, run.id, step, "CACHED")
        if known is not None:
            return known
        number, _ = new_execution(
            db, run, step, kind, "CACHED", earlier.cache_key, earlier.exec_properties, now, earlier.image_id
        )
        for direction, side in (("INPUT", earlier.inputs), ("OUTPUT", earlier.outputs)):
            paths = [(name, at, one.id) for name, records in side.items() for at, one in enumerate(records)]
            add_events(db, number, direction, paths, now)
        return self._known(db, number, run)

    def _last(self, db: Connection, run_id: str, step: str, state: ExecutionState) -> ExecutionRecord | None:
        """Return the last execution of a step in a state."""
        wanted = (
            EXECUTIONS.join(associations, associations.c.execution_id == executions.c.id)
            .where(associations.c.context_id == context_named(RUN, run_id).scalar_subquery())
            .where(our_executions.c.step == named(step), executions.c.last_known_state == EXECUTION_STATES.index(state))
            .order_by(executions.c.id.desc())
        )
        return next(iter(execution_records(db, db.execute(wanted.limit(1)).all(), run_id)), None)

    def _known(self, db: Connection, number: int, run: RunRecord) -> ExecutionRecord:
        record = execution_record(db, number, run.id)
        assert record is not None
        return record

    @reads
    def usable(self, db: Connection, pipeline: str, step: str, cache_key: str) -> list[ExecutionRecord]:
        """Return the successful executions of a pipeline's step with this cache key, the newest first."""
        wanted = (
            EXECUTIONS.join(associations, associations.c.execution_id == executions.c.id)
            .where(associations.c.context_id == context_named(PIPELINE, pipeline).scalar_subquery())
            .where(our_executions.c.cache_key == cache_key, our_executions.c.step == step)
            .where(executions.c.last_known_state.in_(_USABLE))
            .order_by(executions.c.id.desc())
        )
        return execution_records(db, db.execute(wanted).all(), "")

    @writes
    def publish(self, db: Connection, number: int, outcome: StepOutcome, run: RunRecord | None = None) -> None:
        """Record the outcome of an execution, of `run`. Idempotent. Raises OwnershipLost."""
        if run is not None:
            fence(db, run)
        before = execution_record(db, number, "")
        if before is None:
            raise StoreError(f"execution {number} is not in the metadata store")
        state = {
            "last_known_state": EXECUTION_STATES.index(outcome.state),
            "last_update_time_since_epoch": milliseconds(outcome.at),
        }
        row = executions.c.id == number
        db.execute(update(executions).where(row).values(**state))
        ours = {"message": json.dumps(outcome.message), "image_id": outcome.image_id}
        db.execute(update(our_executions).where(our_executions.c.execution_id == number).values(**ours))
        if outcome.exec_properties and outcome.exec_properties != before.exec_properties:
            type_id = db.execute(select(executions.c.type_id).where(row)).scalar_one()
            put_properties(db, execution_properties, number, type_id, outcome.exec_properties)
        for name, records in before.outputs.items():
            settle_output(db, number, name, records, outcome)

    # Artifacts.

    @writes
    def external_artifact(self, db: Connection, type_name: str, artifact: Artifact, now: datetime) -> int:
        """Return the id of an artifact made by no step; the same for the same type, URI and properties."""
        exclusively(db)
        type_name = named(type_name)
        made = select(events.c.id).where(events.c.artifact_id == artifacts.c.id, events.c.type == EVENTS["OUTPUT"])
        wanted = ARTIFACTS.where(artifacts.c.uri == artifact.uri, types.c.name == type_name, ~made.exists())
        for known in artifact_records(db, db.execute(wanted).all()):
            if known.properties == artifact.properties:
                return known.id
        return new_artifact(db, type_name, artifact.uri, "LIVE", artifact.properties, now)

    @reads
    def artifacts(self, db: Connection, wanted: str) -> list[ArtifactRecord]:
        """Return artifacts by id or URI, the newest first."""
        found = artifacts.c.uri == wanted.replace("\0", "")
        if wanted.isascii() and wanted.isdigit() and len(wanted) <= len(str(MAX_ID)) and int(wanted) <= MAX_ID:
            found = found | (artifacts.c.id == int(wanted))
        return artifact_records(db, db.execute(ARTIFACTS.where(found).order_by(artifacts.c.id.desc())).all())

    @reads
    def users_of(self, db: Connection, artifact: int, direction: str) -> list[ExecutionRecord]:
        """Return the executions that have read (`INPUT`) or made (`OUTPUT`) an artifact."""
        wanted = EXECUTIONS.join(events, events.c.execution_id == executions.c.id)
        wanted = wanted.where(events.c.artifact_id == artifact, events.c.type == EVENTS[direction])
        rows = db.execute(wanted.order_by(executions.c.id)).all()
        return [record for row in rows for record in execution_records(db, [row], run_of(db, row.id))]

    @writes
    def mark_deleted(self, db: Connection, uris: Sequence[str]) -> None:
        """Record that the data at these URIs was removed: it is never reused."""
        for some in batched(uris):
            values = {"state": ARTIFACT_STATES.index("DELETED")}
            db.execute(update(artifacts).where(artifacts.c.uri.in_(some)).values(**values))
