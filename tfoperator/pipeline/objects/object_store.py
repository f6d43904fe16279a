"""The interface of an object store: whole reads and writes, lists, and conditional writes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

import msgspec

from tfoperator.launcher import LauncherError

ABSENT = ""
"""The expected version of a write that creates an object."""


class ObjectStoreError(LauncherError):
    """The store can't be used; the message names it, and suggests what to do. `passing`: it may recover."""

    passing = False


class ObjectStoreUnavailable(ObjectStoreError):
    """It does not answer, or is temporarily unavailable."""

    passing = True


class ObjectConflict(LauncherError):
    """The object is not at the version that the write expects, and was not written."""


class Stored(msgspec.Struct, frozen=True):
    """An object as read.

    `age` is in seconds, between the store's own times of its last write and of this response: no other machine's clock
    counts. A store may use whole seconds, so it may be one second off.
    """

    data: bytes
    version: str
    age: float
    modified: datetime


class ObjectStore(Protocol):
    """Objects by key (parts of `[A-Za-z0-9._-]`, separated by `/`). Thread-safe.

    A write is all or nothing, and seen by every read that begins after it has returned, on any machine. A client that
    writes under a condition gives each object unique content: a version may be a digest of it. Every method raises
    ObjectStoreError; requests are retried for a while before that.
    """

    def get(self, key: str) -> Stored | None:
        """Return an object, None if there is none."""
        ...

    def put(self, key: str, data: bytes, expected: str | None = None) -> str:
        """Write an object; return its version. `expected` is the version that it must have, or ABSENT; None: any.

        Raises ObjectConflict if it has another one. A write with a lost response counts as done if the object has
        the new content.
        """
        ...

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """Yield the keys that begin with a prefix, sorted; only those after `after`."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object, if it exists."""
        ...


def check_conditional_writes(objects: ObjectStore, where: str) -> None:
    """Raise ObjectStoreError if the store ignores conditions: two runners would then overwrite each other's records."""
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
