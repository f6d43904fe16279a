"""Records in a PostgreSQL database: connections, transactions, and notifications about writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from sqlalchemy import Connection, create_engine, inspect
from sqlalchemy.exc import SQLAlchemyError

from tfoperator.base.urls import shown_url
from tfoperator.launcher import ComponentError
from tfoperator.pipeline.store.database import Database, exclusively, make_tables
from tfoperator.pipeline.store.tables import VERSION

_CHANNEL = "tfoperator"
"""The name of the channel for notifications about writes."""
_CONNECTING: dict[str, Any] = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "tfoperator",
    # If a client hangs in a transaction, the server ends the transaction and releases its locks.
    "options": "-c lock_timeout=15s -c statement_timeout=30s -c idle_in_transaction_session_timeout=15s",
}
"""Options of a connection. With these times, the client notices a broken connection before the lease of a run expires
(30 s).
"""


class PostgreSQL(Database):
    """A database on a PostgreSQL server. Thread-safe."""

    retries = 25.0
    """The seconds for which a transaction is retried. This time is shorter than the time of a lease, 30 s."""

    def __init__(self, url: str, *, read_only: bool) -> None:
        """Connect, and make the tables if they are missing. Raises StoreError, or ComponentError without psycopg."""
        if find_spec("psycopg") is None:
            raise ComponentError("records in PostgreSQL need psycopg: pip install 'tfoperator[postgres]'")
        import psycopg

        connect = partial(psycopg.connect, url, **_CONNECTING)
        super().__init__(shown_url(url), create_engine("postgresql+psycopg://", creator=connect), read_only=read_only)

    def _make(self) -> None:
        with self._transaction(write=True) as db:
            exclusively(db)
            if self._version(db) == 0:
                make_tables(db)
                db.exec_driver_sql(f"CREATE TABLE tfoperator_version AS SELECT {VERSION} AS version")

    def _version(self, db: Connection) -> int:
        if not inspect(db).has_table("tfoperator_version"):
            return 0
        return int(db.exec_driver_sql("SELECT version FROM tfoperator_version").scalar_one())

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Connection]:
        """Yield a connection in a transaction. With `write`, the commit notifies waiting processes (NOTIFY).

        All queries of a reading transaction see the same state of the store (REPEATABLE READ).
        """
        options: dict[str, Any] = {} if write else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self._engine.connect().execution_options(**options) as db, db.begin():
            yield db
            if write:
                db.exec_driver_sql(f"NOTIFY {_CHANNEL}")

    def changes(self) -> str:
        """Return the server's current snapshot as text. The snapshot changes with each write by any process.

        The snapshot also changes with each transaction in other databases of the same server.
        """
        with self._in_words(), self._engine.connect() as db:
            return str(db.exec_driver_sql("SELECT pg_current_snapshot()::text").scalar_one())

    def wait(self, seconds: float) -> float:
        """Wait at most `seconds` for the notification of a write. Return 0.

        If the connection is broken, return `seconds` at once, so the caller waits before it reads again.
        """
        import psycopg

        try:
            listening = self._watching()
            if not listening.autocommit:
                listening.autocommit = True
                listening.execute(f"LISTEN {_CHANNEL}")
            for _ in listening.notifies(timeout=seconds, stop_after=1):
                pass
        except (psycopg.Error, SQLAlchemyError):  # ignored: the caller's next read raises an error with the reason
            if self._watcher is not None:
                self._watcher.invalidate()  # the next wait connects again
            return seconds
        return 0.0


def database_url(place: str) -> tuple[str, str] | None:
    """Split `postgresql://HOST/DB?folder=LOGS` into the URL without `folder`, in libpq's format, and the folder.

    Return None for a directory. Raises ComponentError for any other URL, and for an empty text.
    """
    if not place:
        raise ComponentError(
            "the place of the pipelines' records must not be empty: name a directory, such as ./records"
        )
    if "://" not in place:
        return None
    if not place.startswith(("postgresql://", "postgres://")):
        raise ComponentError(
            f"{shown_url(place)}: records can't be kept in this kind of place: give a directory, or "
            "postgresql://HOST/DB?folder=DIRECTORY, and start with new runs there"
        )
    try:
        parts = urlsplit(place)
    except ValueError as error:
        raise ComponentError(f"{shown_url(place)}: is not a valid URL: {error}") from None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    folder = query.pop("folder", "")
    if parts.password is not None or any("password" in name.lower() for name in query):
        raise ComponentError(
            "a URL of records must not have a password, because URLs are shown and logged: set PGPASSFILE, or name a "
            "service (PGSERVICE) that has the password"
        )
    return parts._replace(query=urlencode(query)).geturl(), folder
