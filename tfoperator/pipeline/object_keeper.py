"""Keeps a launch's record in an object store, such that only the launcher that claimed it last can write it."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from tfoperator.kube.errors import UNDECODABLE
from tfoperator.launcher import OwnershipLost, WorkDirectoryError
from tfoperator.launcher.core import LaunchRecord
from tfoperator.pipeline.objects import ABSENT, ObjectConflict, ObjectStore
from tfoperator.pipeline.outbox import Outbox

_TRIES = 10


class _Envelope(msgspec.Struct):
    """A file and its writer; `stamp` makes each write unique, since a version may be a digest of it."""

    stamp: str
    data: Any = None


def launch_prefix(run_id: str, step: str) -> str:
    """Return the prefix of the files of a step's launch."""
    return f"runs/{run_id}/steps/{step}/"


def kept_record(objects: ObjectStore, prefix: str, record: str = "launch.json") -> LaunchRecord | None:
    """Return a launch's present record, of any writer. Raises WorkDirectoryError, ObjectStoreError."""
    stored = objects.get(prefix + record)
    try:
        there = None if stored is None else msgspec.json.decode(stored.data, type=_Envelope).data
        return None if there is None else msgspec.convert(there, LaunchRecord)
    except UNDECODABLE as error:
        raise WorkDirectoryError(f"{objects}/{prefix}{record} can't be read: {error}") from error


class ObjectKeeper:
    """See `RecordKeeper`. Every file is an object below `prefix`; the record is one JSON document."""

    def __init__(self, objects: ObjectStore, prefix: str, outbox: Outbox, record: str = "launch.json") -> None:
        self._objects = objects
        self._prefix = prefix
        self._outbox = outbox
        self._record = record
        self._version = ABSENT
        self._known: bytes | None = None

    def claim(self) -> None:
        """See `RecordKeeper`: a missing record is claimed, too, so that no earlier claimant can make it."""
        for _ in range(_TRIES):
            stored = self._objects.get(self._key)
            try:
                there = None if stored is None else msgspec.json.decode(stored.data, type=_Envelope).data
            except UNDECODABLE as error:
                raise WorkDirectoryError(f"{self._objects}/{self._key} can't be read: {error}") from error
            try:
                self._version = self._put(there, stored.version if stored is not None else ABSENT)
            except ObjectConflict:
                continue
            self._known = None if there is None else msgspec.json.encode(there)
            return
        raise OwnershipLost(f"{self._objects}/{self._key}: another launcher writes it all the time")

    def read(self, name: str) -> bytes | None:
        """See `RecordKeeper`."""
        if name == self._record:
            return self._known
        stored = self._objects.get(self._prefix + name)
        return None if stored is None else stored.data

    def write(self, name: str, data: bytes) -> None:
        """See `RecordKeeper`; only the record is written this way."""
        assert name == self._record
        try:
            self._version = self._put(msgspec.json.decode(data), self._version)
        except ObjectConflict:
            raise OwnershipLost(f"{self._objects}/{self._key}: another launcher goes on with it") from None
        self._known = data

    def write_soon(self, name: str, data: bytes) -> None:
        """See `RecordKeeper`."""
        self._outbox.put(self._prefix + name, data)

    def remove(self, name: str) -> None:
        """See `RecordKeeper`."""
        if name == self._record:
            self.write(name, b"null")
            self._known = None
        else:
            self._objects.delete(self._prefix + name)

    @property
    def _key(self) -> str:
        return self._prefix + self._record

    def _put(self, data: Any, version: str) -> str:
        return self._objects.put(self._key, msgspec.json.encode(_Envelope(secrets.token_hex(8), data)), version)
