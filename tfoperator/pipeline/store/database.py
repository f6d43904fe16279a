"""A database and its transactions.

The module also has decorators that make a method a transaction, and the statements that differ between SQLite and
PostgreSQL.
"""

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
"""The largest id. On PostgreSQL, ML Metadata's columns have 32 bits."""
_MAX_NAME = 255
_ADVISORY_LOCK = 0x7F0
_SECONDS = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)",
}
_PAUSE = 0.5
"""The seconds between a failed attempt of a transaction and the next attempt."""


class StoreError(LauncherError):
    """The metadata store can't be read or written. `passing` is True if the same call may succeed later."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class UnusablePlace(StoreError, ComponentError):
    """A store can't be made at this place, for example because the place is a file and not a directory.

    The class is also a ComponentError, because the user has to give another place.
    """


def named(name: str) -> str:
    """Return the name if SQLite and PostgreSQL accept it (`is_name`). Otherwise raise StoreError."""
    if not is_name(name):
        raise StoreError(f"{name[:40]!r}: a name may have at most {_MAX_NAME} characters of Unicode, and no NUL")
    return name


def is_name(name: str) -> bool:
    """Return whether SQLite and PostgreSQL accept a name of a type, context or property: at most 255 characters."""
    return len(name) <= _MAX_NAME and storable(name)


def storable(text: str) -> bool:
    """Return whether SQLite and PostgreSQL accept a text.

    PostgreSQL refuses the character NUL, and both refuse halves of surrogate pairs.
    """
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def upsert(db: Connection, table: Table) -> Any:
    """Return an INSERT statement to which an `on_conflict_...` clause can be added."""
    return sqlite.insert(table) if db.dialect.name == "sqlite" else postgresql.insert(table)


def exclusively(db: Connection) -> None:
    """Take a lock of the database until this transaction ends. Other transactions that call this function wait.

    On SQLite, the function does nothing, because SQLite has only one writer at a time.
    """
    if db.dialect.name == "postgresql":
        db.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")


def database_seconds(db: Connection) -> ColumnElement[float]:
    """Return an SQL expression: the current time in seconds since 1970, by the clock of the database server.

    The expression does not use `now()` of PostgreSQL, which is the time at which the transaction began.
    """
    return literal_column(_SECONDS[db.dialect.name], Float(53))


def make_tables(db: Connection) -> None:
    """Make the tables that are missing. Raises StoreError if the tables belong to another schema of ML Metadata."""
    metadata.create_all(db)
    schema = db.execute(select(mlmd_env.c.schema_version)).scalar()
    if schema is None:
        db.execute(insert(mlmd_env).values(schema_version=MLMD_SCHEMA))
    elif schema != MLMD_SCHEMA:
        raise StoreError(
            f"the tables of the records have ML Metadata's schema {schema}, but this tfoperator needs schema "
            f"{MLMD_SCHEMA}: choose another place for the records (--home)"
        )


class Database(abc.ABC):
    """A database: a SQLite file, or a database of PostgreSQL. Thread-safe. Every transaction is atomic and durable."""

    retries: ClassVar[float] = 0.0
    """The seconds for which a transaction is retried while the database does not answer; 0 means no retry."""

    def __init__(self, place: str, engine: Engine, *, read_only: bool) -> None:
        """Make the tables if they are missing.

        With `read_only`, the tables must exist. `place` is the name of the database in messages. Raises StoreError.
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
                "version of tfoperator that wrote the records, or another place for the records (--home)"
            )
        if version == 0 and self._read_only:
            raise StoreError(f"{self.place} has no tables of tfoperator yet: run a pipeline first")
        if version == 0:
            self._make()

    @abc.abstractmethod
    def _version(self, db: Connection) -> int:
        """Return the version of the tables. Return 0 if there are no tables."""

    @abc.abstractmethod
    def _make(self) -> None:
        """Make the tables, unless another process has made them meanwhile."""

    @abc.abstractmethod
    def _transaction(self, *, write: bool) -> AbstractContextManager[Connection]:
        """Return a connection in a transaction. Without `write`, the transaction only reads.

        An error rolls the transaction back. Raises SQLAlchemyError or StoreError.
        """

    def run(self, work: Callable[[Connection], T], *, write: bool) -> T:
        """Run `work` in one transaction, which writes all or nothing; return its result.

        If the database does not respond, `work` runs again in a new transaction, for at most `retries` seconds. The
        first transaction may have been committed, if only its response was lost. So `work` must be idempotent. Set
        `write` if `work` writes. Raises StoreError, for example if the database is open only for reads, and all errors
        of `work`.
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
        """Return a text that changes with each write by any process. Raises StoreError.

        A caller compares two texts to learn whether it has to read again.
        """

    def wait(self, seconds: float) -> float:
        """Wait until a process writes to the database, at most for `seconds`. Only one thread at a time may call this.

        Return the seconds that the caller must still wait before it reads again. This implementation is for SQLite,
        which has no notifications: the method returns `seconds` at once.
        """
        return seconds

    def _watching(self) -> Any:
        """Return a connection of the driver that stays open. `changes` or `wait` use it to notice writes."""
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
            message = with_shown_urls(str(getattr(error, "orig", None) or error).strip().splitlines()[0])
            away = isinstance(error, OperationalError) or getattr(error, "connection_invalidated", False)
            raise StoreError(f"{self.place}: {message}", passing=away and self.retries > 0) from error
        except OSError as error:
            raise StoreError(f"{self.place}: {error.strerror}") from error
        except UnicodeEncodeError as error:
            raise StoreError(f"{self.place}: a text can't be stored: {error.reason}") from error


def _in_transaction(
    method: Callable[Concatenate[Any, Connection, P], T], *, write: bool
) -> Callable[Concatenate[Any, P], T]:
    """Return a method that runs `method` as one transaction of `self.database`.

    The first parameter of `method` is the connection. Callers of the new method omit it.
    """

    @wraps(method)
    def called(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        result: T = self.database.run(lambda db: method(self, db, *arguments, **options), write=write)
        return result

    return called


reads, writes = partial(_in_transaction, write=False), partial(_in_transaction, write=True)
"""Decorators for methods. `reads` makes a method a transaction that only reads. `writes` makes a method a transaction
that can write. On PostgreSQL, this transaction also wakes the processes that wait for a write (`Database.wait`).
"""
