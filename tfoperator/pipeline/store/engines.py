"""What differs between SQLite and PostgreSQL: time, statements, errors; connections and transactions of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from sqlalchemy import Connection, Float, Table, create_engine, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from tfoperator.launcher import ComponentError
from tfoperator.pipeline.store.limits import StoreError
from tfoperator.pipeline.store.tables import MLMD_SCHEMA, VERSION, metadata, mlmd_env

_ADVISORY_LOCK = 0x7F0
_CHANNEL = "tfoperator"
_CONNECTING: dict[str, Any] = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "tfoperator",
    # A holder of a lock that hangs must not keep it.
    "options": "-c lock_timeout=15s -c statement_timeout=30s -c idle_in_transaction_session_timeout=15s",
}
"""How soon a cut connection is noticed: before a lease runs out."""


class Backend(Protocol):
    """A database of one kind. Thread-safe. All raise SQLAlchemyError, StoreError."""

    place: str
    """Its name, for users."""
    retries: float = 0.0
    """Seconds for which a transaction is tried again while the database is away."""

    def prepare(self) -> None:
        """Make the tables if necessary, unless it is only read."""
        ...

    def transaction(self, *, write: bool) -> Any:
        """Return a context manager of a connection in a transaction, rolled back after any error."""
        ...

    def changes(self) -> str:
        """Return a text that changes with each write by any process; "" if there is no store. Takes no lock."""
        ...

    def wait(self, seconds: float) -> float:
        """Wait until a write, or for some seconds; return how many of `seconds` are left. From one thread at a time."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class PostgreSQL:
    """A database on a server. Each process has a few connections."""

    retries = 25.0
    """Less than a lease."""

    def __init__(self, url: str, *, read_only: bool) -> None:
        """Make no request. Raises ComponentError."""
        if find_spec("psycopg") is None:
            raise ComponentError("records in PostgreSQL need psycopg: pip install 'tfoperator[postgres]'")
        import psycopg

        self.place = url
        self._read_only = read_only

        def connect(*, autocommit: bool = False) -> psycopg.Connection[Any]:
            return psycopg.connect(url, autocommit=autocommit, **_CONNECTING)

        self._connect = connect
        self._engine = create_engine("postgresql+psycopg://", creator=self._connect)
        self._listener: psycopg.Connection[Any] | None = None

    def prepare(self) -> None:
        """See `Backend`."""
        with self.transaction(write=False) as db:
            version = self._version(db)
        if version > VERSION:
            raise StoreError(f"{self.place} was written by a newer tfoperator (its format is {version})")
        if version == VERSION:
            return
        if self._read_only:
            raise StoreError(f"{self.place} has no tables of tfoperator")
        with self.transaction(write=True) as db:
            exclusively(db)
            if self._version(db) == 0:
                make_tables(db)
                db.exec_driver_sql(f"CREATE TABLE tfoperator_version AS SELECT {VERSION} AS version")

    def _version(self, db: Connection) -> int:
        # Not to_regclass: what it has found missing it takes for missing after the wait for a lock, too.
        query = "SELECT 1 FROM pg_class WHERE relname = 'tfoperator_version' AND pg_table_is_visible(oid)"
        if db.exec_driver_sql(query).scalar() is None:
            return 0
        return int(db.exec_driver_sql("SELECT version FROM tfoperator_version").scalar_one())

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """See `Backend`. A reader sees one state of the whole store."""
        if write and self._read_only:
            raise StoreError(f"{self.place} is opened read-only")
        if write:
            with self._engine.begin() as db:
                yield db
            return
        options: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self._engine.connect().execution_options(**options) as db, db.begin():
            yield db

    def changes(self) -> str:
        """See `Backend`. It changes with every transaction of the server, of other databases, too."""
        with self._engine.connect() as db:
            return str(db.exec_driver_sql("SELECT pg_current_snapshot()::text").scalar_one())

    def wait(self, seconds: float) -> float:
        """See `Backend`."""
        import psycopg

        try:
            if self._listener is None:
                self._listener = self._connect(autocommit=True)
                self._listener.execute(f"LISTEN {_CHANNEL}")
            for _ in self._listener.notifies(timeout=seconds, stop_after=1):
                pass
        except psycopg.Error:  # the next read says why
            self._forget_listener()
            return seconds
        return 0.0

    def _forget_listener(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def close(self) -> None:
        """See `Backend`."""
        self._forget_listener()
        self._engine.dispose()


def postgres_url(url: str) -> tuple[str, str]:
    """Return libpq's URL of `postgresql://HOST/DB?folder=URL`, and the folder. Raises ComponentError."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    folder = query.pop("folder", "")
    if parts.password is not None or "password" in query:
        raise ComponentError(
            "a URL of records can't have a password in it, for URLs are shown and logged: set PGPASSFILE, or name a "
            "service (PGSERVICE) that has it"
        )
    return parts._replace(query=urlencode(query)).geturl(), folder


@contextmanager
def in_words(backend: Backend) -> Iterator[None]:
    """Raise errors of a database as StoreError."""
    try:
        yield
    except SQLAlchemyError as error:
        orig = getattr(error, "orig", None)
        failure = StoreError(f"{backend.place}: {str(orig or error).strip().splitlines()[0]}")
        away = isinstance(error, OperationalError) or (isinstance(error, DBAPIError) and error.connection_invalidated)
        failure.passing = away and backend.retries > 0
        raise failure from error
    except UnicodeEncodeError as error:
        raise StoreError(f"{backend.place}: a text can't be stored: {error.reason}") from error


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
        db.exec_driver_sql(f"NOTIFY {_CHANNEL}")


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
