"""What differs between SQLite and PostgreSQL: time, inserts, locks, notifications; and what both take alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Float, Table, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from tfoperator.launcher import LauncherError
from tfoperator.pipeline.store.tables import MLMD_SCHEMA, metadata, mlmd_env

T = TypeVar("T")

MAX_ID = 2**31 - 1
"""The greatest id: ML Metadata's columns have 32 bits on PostgreSQL."""
_MAX_NAME = 255
_MAX_VARIABLES = 500
"""Variables of one statement; SQLite's limit was 999 before 3.32."""
_ADVISORY_LOCK = 0x7F0
CHANNEL = "tfoperator"
"""Of notifications about writes."""


class StoreError(LauncherError):
    """The metadata can't be read or written; the message names the store. `passing`: a retry may succeed."""

    passing = False


def named(name: str) -> str:
    """Return a name, if both engines take it. Raises StoreError."""
    if len(name) > _MAX_NAME or not storable(name):
        raise StoreError(f"{name[:40]!r}: a name has at most {_MAX_NAME} characters of Unicode, and no NUL")
    return name


def storable(text: str) -> bool:
    """Return whether both engines take a text: PostgreSQL refuses NUL, and both refuse halves of surrogate pairs."""
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def batched(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield parts of a sequence that are short enough for the variables of one statement."""
    return (values[start : start + _MAX_VARIABLES] for start in range(0, len(values), _MAX_VARIABLES))


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
