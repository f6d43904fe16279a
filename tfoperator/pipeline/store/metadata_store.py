"""The metadata store, and its writes. Each public method is one transaction, whose body may run more than once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from tfoperator.pipeline.store import queries
from tfoperator.pipeline.store.database import (
    Database,
    StoreError,
    batched,
    database_seconds,
    exclusively,
    named,
    upsert,
    writes,
)
from tfoperator.pipeline.store.postgresql import PostgreSQL
from tfoperator.pipeline.store.properties import put_properties
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
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, Lease, RunRecord
from tfoperator.pipeline.store.sqlite_file import SQLiteFile
from tfoperator.pipeline.store.tables import (
    ARTIFACT_STATES,
    EVENTS,
    EXECUTION_STATES,
    artifacts,
    associations,
    attributions,
    contexts,
    events,
    execution_properties,
    executions,
    launches,
    leases,
    our_executions,
    our_runs,
    parent_contexts,
    types,
)

_RATE_MARGIN = 1.05
"""The maximum ratio of the speeds of two machines' clocks: a holder counts its lease by its own."""


class MetadataStore(Reads, AbstractContextManager[Any]):
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    # Runs.

    @writes
    def put_run(self, db: Connection, run: RunRecord) -> None:
        """Record a run, or its changed state. Raises OwnershipLost."""
        queries.fence(db, run)
        context, _ = queries.run_contexts(db, run, run.began)
        plain = msgspec.to_builtins(msgspec.structs.replace(run, step_terms={}, lease=Lease()))
        values = upsert(db, our_runs).values(context_id=context, record=json.dumps(plain))
        db.execute(values.on_conflict_do_update(index_elements=["context_id"], set_={"record": values.excluded.record}))

    @writes
    def forget_run(self, db: Connection, run_id: str) -> None:
        """Remove a run from the list. Its artifacts stay known: other runs may have used them."""
        number = context_named(RUN, run_id).scalar_subquery()
        for table in (associations, attributions, parent_contexts, our_runs):
            db.execute(delete(table).where(table.c.context_id == number))
        db.execute(delete(contexts).where(contexts.c.id == number))
        db.execute(delete(launches).where(launches.c.run == run_id))

    # Leases.

    @writes
    def take_lease(self, db: Connection, name: str, mine: Lease, seconds: float) -> int:
        """Take it, if it is free; return its term, 0 if another holder has it. One on my kernel must be dead."""
        who = {"holder": mine.holder, "host": mine.host[:255], "process": mine.process, "kernel": mine.kernel}
        free = leases.c.holder.in_(["", mine.holder]) | (leases.c.until < database_seconds())
        if mine.kernel:
            free |= leases.c.kernel == mine.kernel
        until = database_seconds() + seconds * _RATE_MARGIN
        new = upsert(db, leases).values(name=name, term=1, until=until, **who)
        changed: dict[str, Any] = {one: new.excluded[one] for one in ("until", *who)} | {"term": leases.c.term + 1}
        taken = new.on_conflict_do_update(index_elements=["name"], set_=changed, where=free)
        return int(db.execute(taken.returning(leases.c.term)).scalar() or 0)

    @writes
    def renew_lease(self, db: Connection, name: str, holder: str, seconds: float) -> bool:
        """Renew it, or with no seconds give it back; return whether it was still this holder's."""
        mine = update(leases).where(leases.c.name == name, leases.c.holder == holder)
        until = database_seconds() + seconds * _RATE_MARGIN
        return db.execute(mine.values(until=until) if seconds else mine.values(holder="")).rowcount > 0

    # Launches.

    @writes
    def put_launch(self, db: Connection, run: RunRecord, step: str, record: bytes | None) -> None:
        """Record a step's launch, or with None forget it. Raises OwnershipLost."""
        queries.fence(db, run)
        db.execute(delete(launches).where(launches.c.run == run.id, launches.c.step == step))
        if record is not None:
            # Escapes, since not every database takes every character.
            text = json.dumps(json.loads(record))
            db.execute(insert(launches).values(run=run.id, step=step, record=text))

    # Executions.

    @writes
    def begin_execution(self, db: Connection, run: RunRecord, new: ExecutionRecord, now: datetime) -> ExecutionRecord:
        """Return a new execution, RUNNING or CACHED, with the artifacts that it names; those without an id are made.

        If there is one of this step in this state it is returned unchanged: its launcher was killed then.
        """
        queries.fence(db, run)
        known = (
            executions_in(RUN, run.id)
            .where(our_executions.c.step == named(new.step))
            .where(executions.c.last_known_state == EXECUTION_STATES.index(new.state))
            .order_by(executions.c.id.desc())
        )
        if found := execution_records(db, known.limit(1)):
            return found[0]
        number, within = queries.new_execution(db, run, new, now)
        for direction, side in (("INPUT", new.inputs), ("OUTPUT", new.outputs)):
            paths = [
                (name, at, one.id or queries.new_artifact(db, one, now, within))
                for name, records in side.items()
                for at, one in enumerate(records)
            ]
            queries.add_events(db, number, direction, paths, now)
        return self._execution(db, number)

    def _execution(self, db: Connection, number: int) -> ExecutionRecord:
        found = execution_records(db, EXECUTIONS.where(executions.c.id == number))
        if not found:
            raise StoreError(f"execution {number} is not in the metadata store")
        return found[0]

    @writes
    def publish(self, db: Connection, run: RunRecord, outcome: ExecutionRecord, at: datetime) -> None:
        """Record the outcome of an execution, or that it goes on. Idempotent. Raises OwnershipLost."""
        queries.fence(db, run)
        before = self._execution(db, outcome.id)
        row, state = executions.c.id == outcome.id, EXECUTION_STATES.index(outcome.state)
        values = {"last_known_state": state, "last_update_time_since_epoch": queries.milliseconds(at)}
        db.execute(update(executions).where(row).values(**values))
        ours = {"message": json.dumps(outcome.message), "image_id": outcome.image_id}
        db.execute(update(our_executions).where(our_executions.c.execution_id == outcome.id).values(**ours))
        if outcome.exec_properties and outcome.exec_properties != before.exec_properties:
            type_id = db.execute(select(executions.c.type_id).where(row)).scalar_one()
            put_properties(db, execution_properties, outcome.id, type_id, outcome.exec_properties)
        for name, records in before.outputs.items():
            queries.settle_output(db, name, records, outcome, at)

    # Artifacts.

    @writes
    def external_artifact(self, db: Connection, one: ArtifactRecord, now: datetime) -> ArtifactRecord:
        """Return an artifact made by no step, with its id; the same for the same type, URI and properties."""
        exclusively(db)
        made = select(events.c.id).where(events.c.artifact_id == artifacts.c.id, events.c.type == EVENTS["OUTPUT"])
        wanted = ARTIFACTS.where(artifacts.c.uri == one.uri, types.c.name == named(one.type), ~made.exists())
        alike = [known for known in artifact_records(db, wanted) if known.properties == one.properties]
        return alike[0] if alike else msgspec.structs.replace(one, id=queries.new_artifact(db, one, now))

    @writes
    def mark_deleted(self, db: Connection, uris: Sequence[str]) -> None:
        """Record that the data at these URIs was removed: it is never reused."""
        for some in batched(uris):
            values = {"state": ARTIFACT_STATES.index("DELETED")}
            db.execute(update(artifacts).where(artifacts.c.uri.in_(some)).values(**values))
