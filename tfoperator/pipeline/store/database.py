"""A SQLite file through SQLAlchemy, shared by processes and threads, which a kill leaves readable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from tfoperator.launcher import LauncherError
from tfoperator.pipeline.store.tables import SCHEMA_VERSION, metadata

T = TypeVar("T")

_BUSY_SECONDS = 30
"""How long a writer waits for another; a write takes milliseconds."""


P = ParamSpec("P")


class Transactions(Protocol):
    """A database. Thread-safe."""

    def atomically(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, run in one transaction: all or nothing, isolated from others.

        It may run more than once, and must change only the database. Raises StoreError, and the errors of `work`.
        """
        ...

    def close(self) -> None:
        """Release it."""
        ...


class OverDatabase(Protocol):
    """Base of classes whose methods are transactions of a database."""

    database: Transactions


S = TypeVar("S", bound=OverDatabase)


def atomic(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Return the method as one transaction; it is called without the connection."""

    @wraps(method)
    def called(self: S, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self.database.atomically(lambda db: method(self, db, *arguments, **options))

    return called


class StoreError(LauncherError):
    """The metadata can't be read or written; the message names the file. `passing`: a retry may succeed."""

    passing = False


class Database:
    """Thread-safe. Every transaction is atomic and durable: SQLite's own journal, `synchronous=FULL`."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Make the file and its tables if necessary; for reading only, they must exist. Raises StoreError."""
        self.path = path
        self._engine = sqlite_engine(path, read_only=read_only)
        try:
            self._prepare(path, read_only=read_only)
        except BaseException:
            self.close()
            raise

    def _prepare(self, path: Path, *, read_only: bool) -> None:
        try:
            if read_only:
                path.stat()
            else:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # parameters may be secrets
            with self.transaction() as connection:
                version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
                if version > SCHEMA_VERSION:
                    raise StoreError(f"{path} was written by a newer tfoperator (its format is {version})")
                if version < SCHEMA_VERSION:
                    if read_only:
                        raise StoreError(f"{path} is being made just now: try again")
                    metadata.create_all(connection)
                    connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def atomically(self, work: Callable[[Connection], T]) -> T:
        """See `Transactions`; here the work runs once."""
        with self.transaction() as connection:
            return work(connection)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Run one transaction, which is rolled back after any error. Raises StoreError."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"{self.path}: {getattr(error, 'orig', None) or error}") from error


def change_counter(path: Path) -> int:
    """Return a number that changes with each write to the file by any process; -1 if there is none. Takes no lock.

    It is SQLite's own, of the file's header: https://www.sqlite.org/fileformat.html#file_change_counter
    """
    try:
        with path.open("rb") as file:
            head = file.read(28)
    except OSError:
        return -1
    return int.from_bytes(head[24:28], "big") if len(head) == 28 else -1


def sqlite_engine(path: Path, *, read_only: bool = False) -> Engine:
    """Return the engine of the file, which begins transactions as this module needs."""
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": _BUSY_SECONDS})

    # SQLAlchemy's own recipe for SQLite: the driver must not begin transactions by itself, and each begins with the
    # lock for writing. One that begins by reading can't wait for that lock later: SQLite refuses it at once. A reader
    # never requests it, and so delays a runner only by the time of a read.
    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        for pragma in ("foreign_keys = ON", "synchronous = FULL", f"query_only = {'ON' if read_only else 'OFF'}"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN DEFERRED" if read_only else "BEGIN IMMEDIATE")

    return engine
