"""The metadata store, and its writes. Each public method is one transaction, whose body may run more than once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from tfoperator.launcher import Artifact
from tfoperator.pipeline.store.database import Database, writes
from tfoperator.pipeline.store.engines import exclusively, upsert
from tfoperator.pipeline.store.lease_table import LeaseTable
from tfoperator.pipeline.store.limits import StoreError, batched, named
from tfoperator.pipeline.store.postgresql import PostgreSQL
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
    RUN,
    Reads,
    artifact_records,
    context_named,
    execution_records,
    executions_in,
)
from tfoperator.pipeline.store.records import (
    ExecutionRecord,
    ExecutionState,
    RunRecord,
    StepOutcome,
)
from tfoperator.pipeline.store.sqlite_file import SQLiteFile
from tfoperator.pipeline.store.tables import (
    ARTIFACT_STATES,
    EVENTS,
    EXECUTION_STATES,
    artifacts,
    events,
    execution_properties,
    executions,
    launches,
    our_executions,
    our_runs,
    types,
)


class MetadataStore(Reads):
    """Artifacts, executions and runs. Thread-safe; several processes may share the database.

    With `read_only` nothing is created, and every write is a StoreError. Writes for a run name its `term`, that of the
    lease under which they are made. Once another has taken the lease over, they raise OwnershipLost.
    """

    def __init__(self, place: Path | str, *, read_only: bool = False) -> None:
        """Open a file, or with a text libpq's URL. Raises StoreError, ComponentError."""
        self.database: Database = (
            SQLiteFile(place, read_only=read_only)
            if isinstance(place, Path)
            else PostgreSQL(place, read_only=read_only)
        )
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

    @writes
    def forget_run(self, db: Connection, run_id: str) -> None:
        """Remove a run from the list. Its artifacts stay known: other runs may have used them."""
        number = db.execute(context_named(RUN, run_id)).scalar()
        if number is not None:
            forget_context(db, number)
        db.execute(delete(launches).where(launches.c.run == run_id))

    # Launches.

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
        return self._execution(db, number)

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
        return self._execution(db, number)

    def _last(self, db: Connection, run_id: str, step: str, state: ExecutionState) -> ExecutionRecord | None:
        """Return the last execution of a step in a state."""
        wanted = (
            executions_in(RUN, run_id)
            .where(our_executions.c.step == named(step), executions.c.last_known_state == EXECUTION_STATES.index(state))
            .order_by(executions.c.id.desc())
        )
        return next(iter(execution_records(db, wanted.limit(1))), None)

    def _execution(self, db: Connection, number: int) -> ExecutionRecord:
        found = execution_records(db, EXECUTIONS.where(executions.c.id == number))
        if not found:
            raise StoreError(f"execution {number} is not in the metadata store")
        return found[0]

    @writes
    def publish(self, db: Connection, number: int, outcome: StepOutcome, run: RunRecord | None = None) -> None:
        """Record the outcome of an execution, of `run`. Idempotent. Raises OwnershipLost."""
        if run is not None:
            fence(db, run)
        before = self._execution(db, number)
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
        for known in artifact_records(db, wanted):
            if known.properties == artifact.properties:
                return known.id
        return new_artifact(db, type_name, artifact.uri, "LIVE", artifact.properties, now)

    @writes
    def mark_deleted(self, db: Connection, uris: Sequence[str]) -> None:
        """Record that the data at these URIs was removed: it is never reused."""
        for some in batched(uris):
            values = {"state": ARTIFACT_STATES.index("DELETED")}
            db.execute(update(artifacts).where(artifacts.c.uri.in_(some)).values(**values))
