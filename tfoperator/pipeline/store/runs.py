"""Reads and writes runs, their leases and the records of launches. Finds or creates ML Metadata's types and contexts.

A launch is one start of a step by the launcher. The record of a launch (JSON) has its progress, and identifies the
container, pod or TFJob that was launched. So a later process can continue or stop the launch.

A context of ML Metadata is a group of executions and artifacts. There is a context for each run, each pipeline, and
each step of a pipeline.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Insert, Select, case, delete, insert, select, update

from tfoperator.launcher import OwnershipLost
from tfoperator.pipeline.store.database import (
    Database,
    database_seconds,
    exclusively,
    named,
    reads,
    upsert,
    writes,
)
from tfoperator.pipeline.store.records import ExecutionState, RecordedLease, RunRecord
from tfoperator.pipeline.store.tables import (
    EXECUTION_STATES,
    KINDS,
    associations,
    attributions,
    contexts,
    executions,
    launches,
    leases,
    our_executions,
    our_runs,
    parent_contexts,
    types,
)

RUN, PIPELINE, NODE = "pipeline_run", "pipeline", "node"
"""The types of contexts: a run, a pipeline, and a step of a pipeline."""
_RATE_MARGIN = 1.05
"""The maximum ratio between the speeds of two machines' clocks. The holder and the database measure the time of a lease
by different clocks. So the database adds 5 % to the time of a lease: by its clock, the lease expires later than by the
clock of the holder.
"""


def type_named(name: str, kind: str) -> Any:
    """Return a query for the id of a type by its name; `kind` is `artifact`, `execution` or `context`."""
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
"""An SQL expression: the id of an execution's run, or NULL if the run was removed."""
EXECUTIONS = (
    select(executions, types.c.name.label("kind"), our_executions, _RUN_OF)
    .join(types, types.c.id == executions.c.type_id)
    .join(our_executions, our_executions.c.execution_id == executions.c.id)
)


class Runs:
    """The runs of a store; see `MetadataStore`."""

    database: Database

    @reads
    def run(self, db: Connection, run_id: str) -> RunRecord | None:
        """Return the run with this id, or None if there is no such run."""
        row = db.execute(_runs(db).where(contexts.c.id == context_named(RUN, run_id).scalar_subquery())).first()
        return None if row is None else _run_record(row)

    @reads
    def runs(self, db: Connection, pipeline: str = "", *, most: int | None = None) -> list[RunRecord]:
        """Return the newest `most` runs (all runs if `most` is None), the newest first.

        With `pipeline`, return only the runs of this pipeline among the newest `most` runs.
        """
        newest = [_run_record(row) for row in db.execute(_runs(db).order_by(contexts.c.id.desc()).limit(most))]
        return [run for run in newest if pipeline in ("", run.pipeline)]

    @reads
    def execution_states(self, db: Connection, most: int | None = None) -> Mapping[str, Mapping[str, ExecutionState]]:
        """Return the state of the last execution of each step, by run and step.

        With `most`, include only the newest `most` runs.
        """
        states: dict[str, dict[str, ExecutionState]] = defaultdict(dict)
        newest = select(our_runs.c.context_id).order_by(our_runs.c.context_id.desc()).limit(most)
        wanted = (
            select(contexts.c.name.label("run"), our_executions.c.step, executions.c.last_known_state)
            .join(associations, associations.c.context_id == contexts.c.id)
            .join(executions, executions.c.id == associations.c.execution_id)
            .join(our_executions, our_executions.c.execution_id == executions.c.id)
            .where(contexts.c.id.in_(newest))
            .order_by(executions.c.id)
        )
        for row in db.execute(wanted):
            states[row.run][row.step] = EXECUTION_STATES[row.last_known_state]
        return states

    @writes
    def put_run(self, db: Connection, run: RunRecord) -> None:
        """Record a new run, or the changed state of a run.

        Raises OwnershipLost if another process has taken over the run or one of its steps.
        """
        fence(db, run)
        context, _ = run_contexts(db, run, run.began)
        plain = msgspec.to_builtins(msgspec.structs.replace(run, step_terms={}, lease=RecordedLease()))
        values = upsert(db, our_runs).values(context_id=context, record=json.dumps(plain))
        db.execute(values.on_conflict_do_update(index_elements=["context_id"], set_={"record": values.excluded.record}))

    @writes
    def forget_run(self, db: Connection, run_id: str) -> None:
        """Remove a run and the records of its launches.

        The executions and artifacts of the run stay in the store, because other runs may have reused them.
        """
        number = context_named(RUN, run_id).scalar_subquery()
        for table in (associations, attributions, parent_contexts, our_runs):
            db.execute(delete(table).where(table.c.context_id == number))
        db.execute(delete(contexts).where(contexts.c.id == number))
        db.execute(delete(launches).where(launches.c.run == run_id))

    # Leases.

    @reads
    def lease(self, db: Connection, name: str) -> RecordedLease:
        """Return the current lease of a run, or of a step (RUN/STEP). If it was never taken, it has no holder."""
        row = db.execute(select(*_lease(db)).where(leases.c.name == name)).first()
        return RecordedLease() if row is None else RecordedLease(*row)

    @writes
    def take_lease(self, db: Connection, name: str, mine: RecordedLease, seconds: float) -> int:
        """Take the lease `name` if it is free or expired. Return its new term, or 0 if another holder has the lease.

        `mine` describes the new holder, and `seconds` is the duration of the lease. If `mine.holder` already has the
        lease, the call takes it again, with a new term.

        If the other holder's `kernel` equals `mine.kernel`, the lease is free: the caller has the file lock that the
        other holder had on the same machine, so the other holder is dead.
        """
        who = {"holder": mine.holder, "host": mine.host[:255], "process": mine.process, "kernel": mine.kernel}
        free = leases.c.holder.in_(["", mine.holder]) | (leases.c.until < database_seconds(db))
        if mine.kernel:
            free |= leases.c.kernel == mine.kernel
        until = database_seconds(db) + seconds * _RATE_MARGIN
        new = upsert(db, leases).values(name=name, term=1, until=until, **who)
        changed: dict[str, Any] = {column: new.excluded[column] for column in ("until", *who)} | {
            "term": leases.c.term + 1
        }
        taken = new.on_conflict_do_update(index_elements=["name"], set_=changed, where=free)
        return int(db.execute(taken.returning(leases.c.term)).scalar() or 0)

    @writes
    def renew_lease(self, db: Connection, name: str, holder: str, seconds: float) -> bool:
        """Renew the lease. With 0 seconds, release it. Return whether the lease still belonged to this holder."""
        mine = update(leases).where(leases.c.name == name, leases.c.holder == holder)
        until = database_seconds(db) + seconds * _RATE_MARGIN
        return db.execute(mine.values(until=until) if seconds else mine.values(holder="")).rowcount > 0

    # Launches.

    @reads
    def launch(self, db: Connection, run_id: str, step: str) -> bytes | None:
        """Return the record of a step's launch (JSON), or None if there is no record."""
        query = select(launches.c.record).where(launches.c.run == run_id, launches.c.step == step)
        text = db.execute(query).scalar()
        return None if text is None else text.encode()

    @writes
    def put_launch(self, db: Connection, run: RunRecord, step: str, record: bytes | None) -> None:
        """Write the launch record of a step (JSON). With None, delete the record.

        Raises OwnershipLost if another process has taken over the run or one of its steps.
        """
        fence(db, run)
        db.execute(delete(launches).where(launches.c.run == run.id, launches.c.step == step))
        if record is not None:
            # `json.dumps` writes characters such as NUL and surrogates as \u escapes, which every database accepts.
            db.execute(insert(launches).values(run=run.id, step=step, record=json.dumps(json.loads(record))))


def _lease(db: Connection) -> list[ColumnElement[Any]]:
    left = case((leases.c.holder != "", leases.c.until - database_seconds(db)), else_=0.0).label("left")
    return [left if name == "left" else leases.c[name] for name in RecordedLease.__struct_fields__]


def _runs(db: Connection) -> Select[Any]:
    wanted = select(our_runs.c.record, *_lease(db)).join(contexts, contexts.c.id == our_runs.c.context_id)
    return wanted.outerjoin(leases, leases.c.name == contexts.c.name)


def _run_record(row: Any) -> RunRecord:
    fields = {name: value for name, value in json.loads(row.record).items() if value is not None}
    run = msgspec.convert(fields, RunRecord)
    return run if row.term is None else msgspec.structs.replace(run, lease=RecordedLease(*row[1:]))


def fence(db: Connection, run: RunRecord) -> None:
    """Raise OwnershipLost if the store has a larger term than `run` for the run's lease, or for a step's lease.

    A larger term means that another runner has taken over the lease. The call locks the rows of the leases, so other
    runners can take a lease only after this transaction.
    """
    wanted = {named(run.id): run.term} | {f"{run.id}/{step}": term for step, term in run.step_terms.items()}
    query = select(leases.c.name, leases.c.term).where(leases.c.name.in_(list(wanted))).order_by(leases.c.name)
    for row in db.execute(query.with_for_update()):
        if row.term > wanted[row.name]:
            raise OwnershipLost(f"run {run.id}: another runner has taken over this run, and continues it")


# Types and contexts.


def context_named(kind: str, name: str) -> Any:
    """Return a query for the id of a context by its type (`kind`) and name."""
    type_id = type_named(kind, "context").scalar_subquery()
    return select(contexts.c.id).where(contexts.c.type_id == type_id, contexts.c.name == name)


def executions_in(kind: str, name: str) -> Select[Any]:
    """Return a query for the executions in a context, by the context's type (`kind`) and name."""
    wanted = EXECUTIONS.join(associations, associations.c.execution_id == executions.c.id)
    return wanted.where(associations.c.context_id == context_named(kind, name).scalar_subquery())


def type_id_of(db: Connection, name: str, kind: str) -> int:
    """Return the id of a type. Create the type if it is missing."""
    new = insert(types).values(name=named(name), type_kind=KINDS[kind])
    return _only(db, type_named(name, kind), lambda: inserted(db, new))


def context_id(db: Connection, kind: str, name: str, now: datetime, *parents: int) -> int:
    """Return the id of a context. Create the context if it is missing, as a child of other contexts."""
    name = named(name)

    def make() -> int:
        type_id = type_id_of(db, kind, "context")
        number = inserted(db, insert(contexts).values(type_id=type_id, name=name, **times(now)))
        for parent in parents:
            db.execute(insert(parent_contexts).values(context_id=number, parent_context_id=parent))
        return number

    return _only(db, context_named(kind, name), make)


def run_contexts(db: Connection, run: RunRecord, now: datetime) -> tuple[int, int]:
    """Return the ids of the contexts of a run and its pipeline. Create the contexts if they are missing."""
    pipeline = context_id(db, PIPELINE, run.pipeline, now)
    return context_id(db, RUN, run.id, now, pipeline), pipeline


def _only(db: Connection, query: Any, make: Callable[[], int]) -> int:
    """Return the id that a query finds. If the query finds nothing, call `make` to create the row.

    Simultaneous writers create only one row: `exclusively` lets only one writer at a time repeat the query and create
    the row.
    """
    row_id = db.execute(query).scalar()
    if row_id is None:
        exclusively(db)
        row_id = db.execute(query).scalar()
    return make() if row_id is None else int(row_id)


def inserted(db: Connection, statement: Insert) -> int:
    """Insert a row and return its id."""
    return int(db.execute(statement.returning(statement.table.c.id)).scalar_one())


def times(now: datetime) -> dict[str, int]:
    """Return the two columns of a new row that contain the times of its creation and of its last change."""
    return dict.fromkeys(("create_time_since_epoch", "last_update_time_since_epoch"), milliseconds(now))


def milliseconds(now: datetime) -> int:
    """Return a time in milliseconds since 1970, as in the tables of ML Metadata."""
    return round(now.timestamp() * 1000)
