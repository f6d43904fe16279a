"""What the metadata store needs of a database: transactions, and methods that are one each."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

P = ParamSpec("P")
T = TypeVar("T")


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
