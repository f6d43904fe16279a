"""The metadata in an object store: a journal of transactions, and a copy of their result in SQLite, for each process.

An entry of the journal is the statements of one transaction, and is created with the next number, on condition that
there is none of that number yet. So the journal is one sequence for all writers: a transaction that was made without
knowing the newest entry is not written, and runs again after that was applied. A killed process has written its
entry, or not. The copy is discarded with the process; a snapshot now and then spares others the whole sequence.
Unneeded entries are removed (`shortening.py`).
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Transaction, event
from sqlalchemy.exc import SQLAlchemyError

from tfoperator.base.clock import Clock, Elapsed, SystemClock
from tfoperator.kube.errors import UNDECODABLE
from tfoperator.launcher import LauncherError
from tfoperator.pipeline.objects import ABSENT, ObjectConflict, ObjectStore, ObjectStoreError
from tfoperator.pipeline.store.database import StoreError, sqlite_engine
from tfoperator.pipeline.store.shortening import (
    TRUSTED_SECONDS,
    first_number,
    journal_key,
    shorten,
    snapshot_key,
    snapshot_number,
    snapshots,
)
from tfoperator.pipeline.store.tables import SCHEMA_VERSION, metadata

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SNAPSHOT_PERIOD = 200
"""Entries between snapshots; reading each takes a request."""
_TRIES = 50
_MAX_SNAPSHOT = 1 << 30
"""Maximum bytes of a snapshot: some hundred thousand runs."""


class Entry(msgspec.Struct, frozen=True):
    """One transaction; `id` makes it unique. Each statement has the parameters of all its executions."""

    id: str
    schema: int
    statements: list[tuple[str, list[list[Any]]]]


class JournaledDatabase:
    """See `Transactions`. One thread owns the copy; the others wait for it."""

    def __init__(
        self,
        objects: ObjectStore,
        scratch: Path,
        *,
        snapshot_every: int = _SNAPSHOT_PERIOD,
        clock: Clock | None = None,
    ) -> None:
        """`scratch` is a folder used only by this object. Raises StoreError."""
        self._objects = objects
        self._clock = clock or SystemClock()
        self._snapshot_every = snapshot_every
        self._path = scratch / "metadata.db"
        self._statements: list[tuple[str, list[list[Any]]]] = []
        self._number = self._snapshot = 0  # the last applied entry, and that of the initial snapshot
        # The time before the last check without newer entries or snapshots; None if there is no copy yet.
        self._newest_since: Elapsed | None = None
        self._end_is_known = False  # whether the copy is known to include the first kept entry
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metadata")
        self._engine = sqlite_engine(self._path)
        event.listen(self._engine, "connect", _confine)
        event.listen(self._engine, "after_cursor_execute", self._note)
        try:
            self._thread.submit(self._begin).result()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the thread, and drop the copy."""
        self._thread.shutdown()
        self._engine.dispose()
        self._path.unlink(missing_ok=True)
        self._path.with_suffix(".new").unlink(missing_ok=True)

    def atomically(self, work: Callable[[Connection], T]) -> T:
        """See `Transactions`."""
        return self._thread.submit(self._atomically, work).result()

    def newest(self) -> int:
        """Return the number of the newest transaction, 0 if there is none. Raises StoreError."""
        return self._thread.submit(self._newest).result()

    # Called in the thread.

    def _newest(self) -> int:
        with self._in_words():
            self._catch_up()
        return self._number

    def _begin(self) -> None:
        with self._in_words():
            self._begin_anew()
            self._catch_up()

    def _begin_anew(self) -> None:
        """Make a new copy from the newest snapshot.

        It replaces the old one when it is complete. Until then no copy is trusted, and the next call
        starts over.
        """
        self._newest_since = None
        asked = Elapsed(self._clock)
        number, data = self._newest_snapshot()
        made = self._path.with_suffix(".new")
        made.write_bytes(data)
        engine = sqlite_engine(made)
        try:
            with engine.begin() as db:
                metadata.create_all(db)
        finally:
            engine.dispose()
        self._engine.dispose()
        made.replace(self._path)
        self._number = self._snapshot = number
        self._newest_since, self._end_is_known = asked, False

    def _newest_snapshot(self) -> tuple[int, bytes]:
        """Return its number and the database in it; 0 and an empty file if there is none."""
        for _ in range(_TRIES):
            newest = max(snapshots(self._objects), default="")
            if not newest:
                return 0, b""
            stored = self._objects.get(newest)
            if stored is not None:  # else it was removed meanwhile, and there are newer ones
                return snapshot_number(newest), _decompressed(stored.data)
        raise self._busy()

    def _trusted(self) -> bool:
        """Return whether all entries after the copy's last one still exist, or will. Call it after each response."""
        return self._newest_since is not None and self._newest_since.seconds < TRUSTED_SECONDS

    def _atomically(self, work: Callable[[Connection], T]) -> T:
        with self._in_words():
            for _ in range(_TRIES):
                self._catch_up()
                with self._engine.connect() as db, db.begin() as transaction:
                    self._statements = []
                    result = work(db)
                    if not self._statements:
                        return result
                    entry = Entry(secrets.token_hex(8), SCHEMA_VERSION, self._statements)
                    try:
                        self._objects.put(journal_key(self._number + 1), msgspec.json.encode(entry), ABSENT)
                    except ObjectConflict:
                        transaction.rollback()
                        continue
                    if not self._trusted():
                        raise _later(
                            f"{self._objects}: writing its metadata took so long that nobody knows whether it counts"
                        )
                    self._keep(db, transaction)
                self._take_snapshot()
                return result
        raise self._busy()

    def _keep(self, db: Connection, transaction: Transaction) -> None:
        """Update the copy to the present journal. If that fails, the next call reads the journal."""
        try:
            transaction.commit()
        except SQLAlchemyError as error:
            logger.warning("the metadata are written, but not in %s: %s", self._path, error)
            db.invalidate()  # SQLite's transaction is still open, and the connection would be reused
        else:
            self._number += 1

    def _catch_up(self) -> None:
        """Apply the entries of other writers; those removed meanwhile are in the newest snapshot.

        At a missing entry the journal ends, or has a gap if it was shortened and the listing lacks its snapshots. A
        trusted copy can't reach a gap later: only the first end that it finds must be compared.
        """
        while True:
            asked = Elapsed(self._clock)
            stored = self._objects.get(journal_key(self._number + 1))
            first = first_number(self._objects) if stored is None and not self._end_is_known else 0
            if not self._trusted():
                self._begin_anew()
            elif stored is not None:
                self._apply(stored.data)
            elif first > self._number + 1:
                self._newest_since = None
                raise _later(
                    f"{self._objects}: its journal of metadata begins with transaction {first}, but no snapshot of "
                    f"those before is listed, only up to {self._number}: it is not complete"
                )
            else:
                self._newest_since, self._end_is_known = asked, True
                return

    def _apply(self, data: bytes) -> None:
        entry = msgspec.json.decode(data, type=Entry)
        if entry.schema > SCHEMA_VERSION:
            raise StoreError(f"{self._objects} was written by a newer tfoperator (its format is {entry.schema})")
        with self._engine.begin() as db:
            for statement, times in entry.statements:
                if not _writes(statement):
                    raise StoreError(f"{self._objects}: {journal_key(self._number + 1)} does more than to write rows")
                db.exec_driver_sql(statement, [tuple(one) for one in times])
        self._number += 1

    def _take_snapshot(self) -> None:
        """Write a snapshot if the last one is old. All writers of a number's snapshot write the same tables.

        The transaction is written by then: an error here is not its failure. Nothing is lost, as this is retried
        after the next one.
        """
        if self._number - self._snapshot < self._snapshot_every:
            return
        try:
            with closing(sqlite3.connect(self._path)) as db:
                data = db.serialize()
            self._objects.put(snapshot_key(self._number), zlib.compress(data))
            self._snapshot = self._number
            shorten(self._objects)
        except (LauncherError, OSError, MemoryError, ValueError, sqlite3.Error, zlib.error) as error:
            reason = str(error) or type(error).__name__
            logger.warning("the metadata are written, but no snapshot is, or what is old is not removed: %s", reason)

    def _busy(self) -> StoreError:
        return _later(f"{self._objects}: others write their metadata all the time")

    def _note(self, _: Any, __: Any, statement: str, parameters: Any, ___: Any, many: bool) -> None:
        if _writes(statement):
            self._statements.append((statement, [list(one) for one in parameters] if many else [list(parameters)]))

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except ObjectStoreError as error:
            failure = StoreError(str(error))
            failure.passing = error.passing
            raise failure from error
        except SQLAlchemyError as error:
            raise StoreError(f"{self._path}: {getattr(error, 'orig', None) or error}") from error
        except (OSError, sqlite3.Error, zlib.error, *UNDECODABLE) as error:
            raise StoreError(f"{self._objects}: its metadata can't be read: {error}") from error


def _later(what: str) -> StoreError:
    error = StoreError(f"{what}; try again later")
    error.passing = True
    return error


def _writes(statement: str) -> bool:
    return statement[:7].upper() in ("INSERT ", "UPDATE ", "DELETE ")


def _decompressed(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    found = stream.decompress(data, _MAX_SNAPSHOT)
    if not stream.eof:
        raise zlib.error("the snapshot is too large, or cut off")
    return found


def _confine(connection: Any, _: Any) -> None:
    """Deny access to other files: statements from the store may only write rows."""
    denied = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action in denied else sqlite3.SQLITE_OK)
