"""The metadata in an object store: a journal of transactions, and a copy of what they make in SQLite, for each process.

An entry of the journal is the statements of one transaction, and is created with the next number, on condition that
there is none of that number yet. So the journal is one sequence, whoever writes: a transaction that was made without
knowing the newest entry is not written, and runs again after that was applied. A process that is killed has written its
entry, or not. The copy is thrown away with the process; a snapshot now and then spares others the whole sequence.
"""

from __future__ import annotations

import secrets
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, event
from sqlalchemy.exc import SQLAlchemyError

from tfoperator.kube.errors import UNDECODABLE
from tfoperator.pipeline.objects import ABSENT, ObjectConflict, ObjectStore, ObjectStoreError
from tfoperator.pipeline.store.database import StoreError, sqlite_engine
from tfoperator.pipeline.store.tables import SCHEMA_VERSION, metadata

T = TypeVar("T")

_SNAPSHOT_EVERY = 200
"""Entries; to read them takes a request each."""
_KEPT_SNAPSHOTS = 2
_TRIES = 50
_MOST_BYTES = 1 << 30
"""Of a snapshot: some hundred thousand runs."""
_JOURNAL, _SNAPSHOTS = "metadata/journal/", "metadata/snapshots/"


class Entry(msgspec.Struct, frozen=True):
    """One transaction; `id` makes it unlike every other. Each statement comes with the parameters of all its uses."""

    id: str
    schema: int
    statements: list[tuple[str, list[list[Any]]]]


class JournaledDatabase:
    """See `Transactions`. One thread has the copy; the others wait for it."""

    def __init__(self, objects: ObjectStore, scratch: Path, *, snapshot_every: int = _SNAPSHOT_EVERY) -> None:
        """`scratch` is a folder that is this object's alone. Raises StoreError."""
        self._objects = objects
        self._snapshot_every = snapshot_every
        self._path = scratch / "metadata.db"
        self._statements: list[tuple[str, list[list[Any]]]] = []
        self._number = self._snapshot = 0  # the last entry that was applied, and that of the snapshot it began with
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
        """End the thread, and forget the copy."""
        self._thread.shutdown()
        self._engine.dispose()
        self._path.unlink(missing_ok=True)

    def atomically(self, work: Callable[[Connection], T]) -> T:
        """See `Transactions`."""
        return self._thread.submit(self._atomically, work).result()

    def newest(self) -> int:
        """The number of the newest transaction, 0 if there is none. Raises StoreError."""
        return self._thread.submit(self._newest).result()

    # In the thread.

    def _newest(self) -> int:
        with self._in_words():
            self._catch_up()
        return self._number

    def _begin(self) -> None:
        with self._in_words():
            newest = max(self._objects.keys(_SNAPSHOTS), default="")
            stored = self._objects.get(newest) if newest else None
            if stored is not None:
                self._path.write_bytes(_decompressed(stored.data))
                self._number = self._snapshot = int(newest.removeprefix(_SNAPSHOTS))
            with self._engine.begin() as db:
                metadata.create_all(db)
            self._catch_up()

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
                        self._objects.put(_journal_key(self._number + 1), msgspec.json.encode(entry), ABSENT)
                    except ObjectConflict:
                        transaction.rollback()
                        continue
                self._number += 1
                self._take_snapshot()
                return result
        raise StoreError(f"{self._objects}: others write their metadata all the time; try again later")

    def _catch_up(self) -> None:
        """Apply what others have written."""
        while (stored := self._objects.get(_journal_key(self._number + 1))) is not None:
            entry = msgspec.json.decode(stored.data, type=Entry)
            if entry.schema > SCHEMA_VERSION:
                raise StoreError(f"{self._objects} was written by a newer tfoperator (its format is {entry.schema})")
            with self._engine.begin() as db:
                for statement, times in entry.statements:
                    if not _writes(statement):
                        raise StoreError(
                            f"{self._objects}: {_journal_key(self._number + 1)} does more than to write rows"
                        )
                    db.exec_driver_sql(statement, [tuple(one) for one in times])
            self._number += 1

    def _take_snapshot(self) -> None:
        """Write a snapshot if the last one is old. All that write one of a number write the same tables."""
        if self._number - self._snapshot < self._snapshot_every:
            return
        with sqlite3.connect(self._path) as db:
            data = db.serialize()
        db.close()
        self._objects.put(f"{_SNAPSHOTS}{self._number:012d}", zlib.compress(data))
        self._snapshot = self._number
        for key in sorted(self._objects.keys(_SNAPSHOTS))[:-_KEPT_SNAPSHOTS]:
            self._objects.delete(key)

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


def _writes(statement: str) -> bool:
    return statement[:7].upper() in ("INSERT ", "UPDATE ", "DELETE ")


def _decompressed(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    found = stream.decompress(data, _MOST_BYTES)
    if not stream.eof:
        raise zlib.error("the snapshot is too large, or cut off")
    return found


def _confine(connection: Any, _: Any) -> None:
    """What comes from the store writes rows: other files are none of its business."""
    denied = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action in denied else sqlite3.SQLITE_OK)


def _journal_key(number: int) -> str:
    return f"{_JOURNAL}{number:012d}.json"
