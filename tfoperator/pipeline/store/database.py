"""A database, and transactions of it as methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

from tfoperator.base.clock import Clock, Elapsed, StopSignal, SystemClock
from tfoperator.pipeline.store.engines import Backend, PostgreSQL, in_words, notify
from tfoperator.pipeline.store.limits import StoreError
from tfoperator.pipeline.store.sqlite_file import SQLiteFile

T = TypeVar("T")
P = ParamSpec("P")

_PAUSE = 0.5


class Database:
    """A SQLite file, or a database of PostgreSQL. Thread-safe. Every transaction is atomic and durable."""

    def __init__(self, place: Path | str, *, read_only: bool = False, clock: Clock | None = None) -> None:
        """Make the file and its tables if necessary; for reading only, they must exist. A text is libpq's URL.

        Raises StoreError, ComponentError.
        """
        self._clock = clock or SystemClock()
        self._backend: Backend = (
            SQLiteFile(place, read_only=read_only)
            if isinstance(place, Path)
            else PostgreSQL(place, read_only=read_only)
        )
        try:
            with in_words(self._backend):
                self._backend.prepare()
        except BaseException:
            self.close()
            raise

    def run(self, work: Callable[[Connection], T], *, write: bool) -> T:
        """Return the result of `work`, run in one transaction: all or nothing.

        It may run more than once, the last time perhaps after a success whose answer was lost. Raises StoreError, and
        the errors of `work`.
        """
        began = Elapsed(self._clock)
        while True:
            try:
                with in_words(self._backend), self._backend.transaction(write=write) as db:
                    return work(db)
            except StoreError as error:
                if not error.passing or began.seconds > self._backend.retries:
                    raise
            StopSignal().wait(self._clock, _PAUSE)

    def changes(self) -> str:
        """Return a text that changes with each write by any process. Raises StoreError."""
        with in_words(self._backend):
            return self._backend.changes()

    def wait(self, seconds: float) -> float:
        """Wait until a write, or for some seconds; return how many of `seconds` are left. From one thread at a time."""
        return self._backend.wait(seconds)

    def close(self) -> None:
        """Close all connections."""
        self._backend.close()


class OverDatabase(Protocol):
    """Base of classes whose methods are transactions of a database."""

    database: Database


S = TypeVar("S", bound=OverDatabase)


def reads(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Return the method as one transaction that only reads; it is called without the connection."""

    @wraps(method)
    def called(self: S, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self.database.run(lambda db: method(self, db, *arguments, **options), write=False)

    return called


def writes(method: Callable[Concatenate[S, Connection, P], T]) -> Callable[Concatenate[S, P], T]:
    """Return the method as one transaction, after which those that wait for a write are woken."""

    @wraps(method)
    def called(self: S, /, *arguments: P.args, **options: P.kwargs) -> T:
        def work(db: Connection) -> T:
            result = method(self, db, *arguments, **options)
            notify(db)
            return result

        return self.database.run(work, write=True)

    return called
