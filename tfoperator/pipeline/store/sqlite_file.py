"""Records in a SQLite file: its connections and transactions, the lock of its writers, and the detection of changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import URL, Connection, create_engine, event

from tfoperator.base.files import hold_lock
from tfoperator.base.private_files import make_folders
from tfoperator.pipeline.store.database import Database, StoreError, UnusablePlace, make_tables
from tfoperator.pipeline.store.tables import VERSION

_BUSY_SECONDS = 30.0
"""The maximum seconds that a writer waits for other writers. A write takes milliseconds."""


class SQLiteFile(Database):
    """A file that the processes of one machine share.

    The kill of a process can't corrupt the file, because of SQLite's WAL and `synchronous=FULL`. Writers wait for a
    lock on the file `NAME.turn` in the same folder. SQLite's own wait is not used: with it, a waiting writer sleeps
    longer after each attempt, and later writers can write first.

    Other code of this process must never open the SQLite file and its `-wal` and `-shm` files. If a process closes a
    file, POSIX releases all locks that the process has on this file, also the locks of SQLite. Then simultaneous writes
    of other processes could be lost.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        """Open the file. If it does not exist, make it, or with `read_only` raise StoreError."""
        self._path = path
        url = URL.create("sqlite", database=str(path))
        engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})

        # SQLAlchemy's own recipe for SQLite: the driver must not begin transactions by itself.
        @event.listens_for(engine, "connect")
        def configure(connection: Any, _: Any) -> None:
            connection.isolation_level = None
            connection.executescript(f"PRAGMA synchronous = FULL; PRAGMA query_only = {read_only}")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            write = connection.get_execution_options().get("write", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN DEFERRED")

        super().__init__(str(path), engine, read_only=read_only)

    def _prepare(self) -> None:
        folder = self._path.parent
        try:
            if not self._read_only and not self._path.exists():
                make_folders(folder)
                with self._turn(), suppress(FileExistsError):
                    self._path.touch(0o600, exist_ok=False)  # a recorded parameter of a run may be a secret
        except OSError as error:
            odd = isinstance(error, FileExistsError | NotADirectoryError)
            why = "it is not a directory" if odd else error.strerror
            raise UnusablePlace(f"the records of pipelines can't be in {folder}: {why}") from error
        self._path.stat()
        super()._prepare()

    def _make(self) -> None:
        with self._turn(), self._engine.connect() as db:
            connection: Any = db.connection.driver_connection
            connection.execute("PRAGMA journal_mode = WAL")
        with self._transaction(write=True) as db:
            if self._version(db) == 0:
                make_tables(db)
                db.exec_driver_sql(f"PRAGMA user_version = {VERSION}")

    def _version(self, db: Connection) -> int:
        return int(db.exec_driver_sql("PRAGMA user_version").scalar_one())

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Connection]:
        """Yield a connection in a transaction. A reading transaction does not delay writers."""
        turn = self._turn() if write else nullcontext()
        with turn, self._engine.connect().execution_options(write=write) as db, db.begin():
            yield db

    def _turn(self) -> BinaryIO:
        """Wait for the lock of writers. Return the open file that holds the lock; closing the file releases it.

        Raises StoreError if other writers hold the lock for `_BUSY_SECONDS`.
        """
        if (held := hold_lock(self._path.with_suffix(".turn"), _BUSY_SECONDS)) is None:
            raise StoreError(f"{self._path}: other writers have locked this file for {_BUSY_SECONDS:.0f} s")
        return held

    def changes(self) -> str:
        """Return SQLite's `data_version` as text. This number changes with each write by any process.

        SQLite changes this number in a connection only when another connection writes. So the method uses a connection
        that never writes.
        """
        with self._in_words(), self._lock:
            return str(self._watching().execute("PRAGMA data_version").fetchone()[0])
