"""What is asked of a store of objects: whole reads and writes, lists, and writes under a condition."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

import msgspec

from tfoperator.launcher import LauncherError

ABSENT = ""
"""As the version that a write expects: there is no such object yet."""


class ObjectStoreError(LauncherError):
    """The store can't be used; the message names it, and says what to do. `passing`: it may be there again later."""

    passing = False


class ObjectStoreUnavailable(ObjectStoreError):
    """It does not answer, or says that it can't now."""

    passing = True


class ObjectConflict(LauncherError):
    """The object is not at the version that the write expects: it was not written."""


class Stored(msgspec.Struct, frozen=True):
    """An object as it was read.

    `age` is in seconds, between the store's own times of its last write and of this answer: no other machine's clock
    counts. A store may tell times in whole seconds, so it may be one second off.
    """

    data: bytes
    version: str
    age: float
    modified: datetime


class ObjectStore(Protocol):
    """Objects by key (words of `[A-Za-z0-9._-]`, separated by `/`). Thread-safe.

    A write is all or nothing, and seen by every read that begins after it has returned, on whatever machine. Whoever
    writes under a condition gives each object content of its own: a version may be a digest of it. Every method raises
    ObjectStoreError; requests are repeated for a while before that.
    """

    def get(self, key: str) -> Stored | None:
        """An object, None if there is none."""
        ...

    def put(self, key: str, data: bytes, expected: str | None = None) -> str:
        """Write an object; its version. `expected` is the version that it must have, or ABSENT; None: any.

        Raises ObjectConflict if it has another one. A write whose answer was lost counts as done if the object is what
        was written.
        """
        ...

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """The keys that begin with a prefix, sorted; only those behind `after`."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        ...


def check_conditional_writes(objects: ObjectStore, where: str) -> None:
    """Raise ObjectStoreError if the store ignores conditions: two runners would then destroy each other's records."""
    key = f"probe/{secrets.token_hex(8)}"
    version = objects.put(key, b"first", ABSENT)
    try:
        for expected in (ABSENT, "0" * 32 if version != "0" * 32 else "1" * 32):
            try:
                objects.put(key, f"unlike {expected}".encode(), expected)
            except ObjectConflict:
                continue
            raise ObjectStoreError(
                f"{where} ignores the conditions of writes (If-None-Match, If-Match), so two runners could destroy "
                "each other's records: use another store, or a directory"
            )
    finally:
        objects.delete(key)
