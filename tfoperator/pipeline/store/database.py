"""A SQLite file through SQLAlchemy, such that processes and threads share it and a kill leaves it readable."""

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
        """What `work` returns, run in one transaction: all or nothing, as if nobody else was there.

        It may run more than once, and changes nothing but the database. Raises StoreError, and what it raises.
        """
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class OverDatabase(Protocol):
    """What has methods that are transactions of a database."""

    database: Transactions


S = TypeVar("S", bound=OverDatabase)


def atomic(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """The method as one transaction; it is called without the connection."""

    @wraps(method)
    def called(self: S, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self.database.atomically(lambda db: method(self, db, *arguments, **options))

    return called


class StoreError(LauncherError):
    """The metadata can't be read or written; the message names the file. `passing`: it may be possible again later."""

    passing = False


class Database:
    """Thread-safe. Every transaction is atomic and durable: SQLite's own journal, `synchronous=FULL`."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Make the file and its tables if need be; for reading only, they have to be there. Raises StoreError."""
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
        """One transaction, which is rolled back if anything is raised. Raises StoreError."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"{self.path}: {getattr(error, 'orig', None) or error}") from error


def change_counter(path: Path) -> int:
    """A number that is another one after each write to the file, whoever writes; -1 if there is none. Takes no lock.

    SQLite's own, of the file's header: https://www.sqlite.org/fileformat.html#file_change_counter
    """
    try:
        with path.open("rb") as file:
            head = file.read(28)
    except OSError:
        return -1
    return int.from_bytes(head[24:28], "big") if len(head) == 28 else -1


def sqlite_engine(path: Path, *, read_only: bool = False) -> Engine:
    """The file, with this module's ways of beginning transactions."""
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": _BUSY_SECONDS})

    # SQLAlchemy's own recipe for SQLite: the driver must not begin transactions by itself, and each begins with the
    # lock for writing. One that begins by reading can't wait for that lock later: SQLite refuses it at once. Who only
    # reads never asks for it, and so keeps no runner waiting for longer than a read takes.
    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        for pragma in ("foreign_keys = ON", "synchronous = FULL", f"query_only = {'ON' if read_only else 'OFF'}"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN DEFERRED" if read_only else "BEGIN IMMEDIATE")

    return engine
