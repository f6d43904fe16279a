"""A database, its transactions, and these as methods; and the statements that differ between SQLite and PostgreSQL."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Float, Table, insert, literal_column, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from tfoperator.base.clock import Elapsed, StopSignal, SystemClock
from tfoperator.base.urls import with_shown_urls
from tfoperator.launcher import ComponentError, LauncherError
from tfoperator.pipeline.store.tables import MLMD_SCHEMA, VERSION, metadata, mlmd_env

T = TypeVar("T")
P = ParamSpec("P")

MAX_ID = 2**31 - 1
"""The greatest id: ML Metadata's columns have 32 bits on PostgreSQL."""
_MAX_NAME = 255
_ADVISORY_LOCK = 0x7F0
_SECONDS = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)",
}
_PAUSE = 0.5
"""Seconds between two tries of a transaction."""


class StoreError(LauncherError):
    """The metadata can't be read or written; the message names the store. `passing`: a retry may succeed."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class UnusablePlace(StoreError, ComponentError):
    """There is no store at this place, and a store can't be made there: the place is bad input."""


def named(name: str) -> str:
    """Return a name, if both engines take it. Raises StoreError."""
    if not is_name(name):
        raise StoreError(f"{name[:40]!r}: a name may have at most {_MAX_NAME} characters of Unicode, without NUL")
    return name


def is_name(name: str) -> bool:
    """Return whether both engines take a name: of a type, a context or a property."""
    return len(name) <= _MAX_NAME and storable(name)


def storable(text: str) -> bool:
    """Return whether both engines take a text: PostgreSQL refuses NUL, and both refuse halves of surrogate pairs."""
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def upsert(db: Connection, table: Table) -> Any:
    """Return an INSERT that may have an `on_conflict_...`."""
    return sqlite.insert(table) if db.dialect.name == "sqlite" else postgresql.insert(table)


def exclusively(db: Connection) -> None:
    """Exclude other writers that call this, until the transaction's end; SQLite has only one writer at a time."""
    if db.dialect.name == "postgresql":
        db.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")


def database_seconds(db: Connection) -> ColumnElement[float]:
    """Return the seconds since 1970 by the database's clock, not as of the transaction's beginning."""
    return literal_column(_SECONDS[db.dialect.name], Float(53))


def make_tables(db: Connection) -> None:
    """Make the missing tables. Raises StoreError if the tables have another schema of ML Metadata."""
    metadata.create_all(db)
    found = db.execute(select(mlmd_env.c.schema_version)).scalar()
    if found is None:
        db.execute(insert(mlmd_env).values(schema_version=MLMD_SCHEMA))
    elif found != MLMD_SCHEMA:
        raise StoreError(
            f"its tables have ML Metadata's schema {found}, but this tfoperator needs schema {MLMD_SCHEMA}"
        )


class Database(abc.ABC):
    """A SQLite file, or a database of PostgreSQL. Thread-safe. Every transaction is atomic and durable."""

    retries: ClassVar[float] = 0.0
    """Seconds for which a transaction is tried again while the database is away."""

    def __init__(self, place: str, engine: Engine, *, read_only: bool) -> None:
        """Make the tables if necessary; for reading only, they must exist. `place` is its name for users.

        Raises StoreError.
        """
        self.place = place
        self._engine = engine
        self._read_only = read_only
        self._clock = SystemClock()
        self._lock = threading.Lock()  # guards _watcher
        self._watcher: Connection | None = None
        try:
            with self._in_words():
                self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        with self._transaction(write=False) as db:
            version = self._version(db)
        if version not in (0, VERSION):
            raise StoreError(
                f"{self.place} has format {version}, but this tfoperator reads format {VERSION} only: use the "
                "version of tfoperator that wrote it, or another place for the records (--home)"
            )
        if version == 0 and self._read_only:
            raise StoreError(f"{self.place} has no tables of tfoperator yet: run a pipeline first")
        if version == 0:
            self._make()

    @abc.abstractmethod
    def _version(self, db: Connection) -> int:
        """Return the version of the tables, 0 if there are none."""

    @abc.abstractmethod
    def _make(self) -> None:
        """Make the tables, unless another process has done it."""

    @abc.abstractmethod
    def _transaction(self, *, write: bool) -> AbstractContextManager[Connection]:
        """Return a connection in a transaction, rolled back after any error. Raises SQLAlchemyError, StoreError."""

    def run(self, work: Callable[[Connection], T], *, write: bool) -> T:
        """Return the result of `work`, run in one transaction: all or nothing.

        It may run more than once, the last time perhaps after a success whose answer was lost. Raises StoreError, and
        the errors of `work`.
        """
        if write and self._read_only:
            raise StoreError(f"{self.place} is opened read-only")
        began = Elapsed(self._clock)
        while True:
            try:
                with self._in_words(), self._transaction(write=write) as db:
                    return work(db)
            except StoreError as error:
                if not error.passing or began.seconds > self.retries:
                    raise
            StopSignal().wait(self._clock, _PAUSE)

    @abc.abstractmethod
    def changes(self) -> str:
        """Return a text that changes with each write by any process; "" if there is no store. Takes no lock.

        Raises StoreError.
        """

    def wait(self, seconds: float) -> float:
        """Wait until a write, or for some seconds; return how many of `seconds` are left. From one thread at a time.

        A database without notifications returns at once.
        """
        return seconds

    def _watching(self) -> Any:
        """Return the driver's side of a connection that stays open for `changes` or `wait`, to notice writes."""
        if self._watcher is None:
            self._watcher = self._engine.connect()
        return self._watcher.connection.driver_connection

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            if self._watcher is not None:
                self._watcher.close()
                self._watcher = None
        self._engine.dispose()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Convert errors of the database, and of its file, into StoreError."""
        try:
            yield
        except SQLAlchemyError as error:
            said = with_shown_urls(str(getattr(error, "orig", None) or error).strip().splitlines()[0])
            away = isinstance(error, OperationalError) or getattr(error, "connection_invalidated", False)
            raise StoreError(f"{self.place}: {said}", passing=away and self.retries > 0) from error
        except OSError as error:
            raise StoreError(f"{self.place}: {error.strerror}") from error
        except UnicodeEncodeError as error:
            raise StoreError(f"{self.place}: a text can't be stored: {error.reason}") from error


def _in_transaction(
    method: Callable[Concatenate[Any, Connection, P], T], *, write: bool
) -> Callable[Concatenate[Any, P], T]:
    """Return the method of a class with a `database` as one transaction. It is called without the connection."""

    @wraps(method)
    def called(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        result: T = self.database.run(lambda db: method(self, db, *arguments, **options), write=write)
        return result

    return called


reads, writes = partial(_in_transaction, write=False), partial(_in_transaction, write=True)
"""Make a method a transaction that only reads, or a transaction that wakes the waiters for a write."""
