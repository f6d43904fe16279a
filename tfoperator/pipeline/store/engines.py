"""The statements that differ between SQLite and PostgreSQL: time, inserts, locks, notifications; and the tables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Float, Table, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from tfoperator.pipeline.store.limits import StoreError
from tfoperator.pipeline.store.tables import MLMD_SCHEMA, metadata, mlmd_env

_ADVISORY_LOCK = 0x7F0
CHANNEL = "tfoperator"
"""Of notifications about writes."""


def upsert(db: Connection, table: Table) -> Any:
    """Return an INSERT that may have an `on_conflict_...`."""
    return sqlite.insert(table) if db.dialect.name == "sqlite" else postgresql.insert(table)


def exclusively(db: Connection) -> None:
    """Exclude other writers that call this, until the transaction's end; in SQLite there are none."""
    if db.dialect.name == "postgresql":
        db.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")


def notify(db: Connection) -> None:
    """Wake those that wait for a write, when this one is done."""
    if db.dialect.name == "postgresql":
        db.exec_driver_sql(f"NOTIFY {CHANNEL}")


class database_seconds(GenericFunction[float]):  # noqa: N801 - the name of an SQL function
    """The seconds since 1970 by the database's clock, not as of the transaction's beginning."""

    type = Float(53)
    inherit_cache = True


@compiles(database_seconds, "sqlite")
def _sqlite_seconds(*_: Any, **__: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(database_seconds, "postgresql")
def _postgresql_seconds(*_: Any, **__: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)"


def make_tables(db: Connection) -> None:
    """Make what is missing of the tables. Raises StoreError if they are of another schema of ML Metadata."""
    metadata.create_all(db)
    found = db.execute(select(mlmd_env.c.schema_version)).scalar()
    if found is None:
        db.execute(insert(mlmd_env).values(schema_version=MLMD_SCHEMA))
    elif found != MLMD_SCHEMA:
        raise StoreError(f"its tables are of ML Metadata's schema {found}; this tfoperator knows {MLMD_SCHEMA}")
