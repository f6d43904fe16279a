"""A database, its transactions, and these as methods."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from tfoperator.base.clock import Elapsed, StopSignal, SystemClock
from tfoperator.pipeline.store.engines import StoreError, notify
from tfoperator.pipeline.store.tables import VERSION

T = TypeVar("T")
P = ParamSpec("P")

_PAUSE = 0.5


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
        try:
            with self._in_words():
                self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        with self._transaction(write=False) as db:
            version = self._version(db)
        if version > VERSION:
            raise StoreError(f"{self.place} was written by a newer tfoperator (its format is {version})")
        if version < VERSION and self._read_only:
            wanted = "`tfoperator pipeline runs` converts it" if version else "it has no tables of tfoperator yet"
            raise StoreError(f"{self.place} has not the present format: {wanted}")
        if version < VERSION:
            self._make()

    @abc.abstractmethod
    def _version(self, db: Connection) -> int:
        """Return the version of the tables, 0 if there are none."""

    @abc.abstractmethod
    def _make(self) -> None:
        """Make the tables, or convert them, unless another process has done it."""

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
                    result = work(db)
                    if write:
                        notify(db)
                    return result
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

        Where nothing notifies, do not wait.
        """
        return seconds

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Raise errors of the database as StoreError."""
        try:
            yield
        except SQLAlchemyError as error:
            orig = getattr(error, "orig", None)
            failure = StoreError(f"{self.place}: {str(orig or error).strip().splitlines()[0]}")
            away = isinstance(error, OperationalError) or getattr(error, "connection_invalidated", False)
            failure.passing = away and self.retries > 0
            raise failure from error
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
"""Make a method a transaction that only reads, or one after which those that wait for a write are woken."""
