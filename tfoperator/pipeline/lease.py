"""Who works on a run, and until when: a lease that its holder renews, and that runs out if the holder is gone.

No clock of another machine is believed. A holder counts the lease from *before* its last successful renewal, by its own
clocks, and does nothing once it has run out by one of them. Another runner takes it over when it has seen it unchanged
for longer than that on its own clock, or when it is older than that, by a margin, in the store's own time. Every write
is conditional on the version that was read: of two that take it over, or of a holder that renews it late and one that
takes it over, one succeeds.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from tfoperator.base.clock import Clock, Elapsed, StopSignal
from tfoperator.kube.errors import UNDECODABLE
from tfoperator.launcher import LaunchInProgress
from tfoperator.launcher.core import OwnershipLost
from tfoperator.pipeline.objects import ABSENT, ObjectConflict, ObjectStore, ObjectStoreError, Stored

LEASE_SECONDS = 30.0
"""How long a lease is good without a renewal: long enough for an outage of the store, short enough to wait for."""
_RATE_MARGIN = 1.05
"""By how much the clocks of two machines may differ in speed."""
_STORE_MARGIN = 15.0
"""Seconds by which the servers of one store may disagree about the time."""
_LOOK_SECONDS = 2.0
_TRIES = 5


class RunInProgress(LaunchInProgress):
    """A runner is at work on this run."""


class RunLeaseRecord(msgspec.Struct, frozen=True):
    """The lease as it is stored. `term` counts the holders; `holder` is "" if nobody holds it.

    `stamp` makes each write unlike every other. `kernel` tells machines apart, and a machine from itself before it was
    started again.
    """

    holder: str
    term: int
    seconds: float
    stamp: str = ""
    host: str = ""
    process: int = 0
    kernel: str = ""


class SeenRunLease(msgspec.Struct, frozen=True):
    """A lease as it was read, when that was (locally, monotonic), and since when it has been so."""

    record: RunLeaseRecord
    version: str
    age: float
    modified: datetime | None
    at: float
    since: float

    @property
    def left(self) -> float:
        """Seconds for which it must still be taken for good; at most 0 if it has run out."""
        if not self.record.holder:
            return 0.0
        seconds = self.record.seconds * _RATE_MARGIN
        return min(self.since + seconds - self.at, seconds + _STORE_MARGIN - self.age)

    @property
    def overdue(self) -> bool:
        """Whether its holder has not renewed it in time: it hangs, is gone, or can't reach the store."""
        return bool(self.record.holder) and self.age > self.record.seconds

    @property
    def until(self) -> datetime | None:
        """When it runs out, in the store's time, unless it is renewed; None if nobody holds it."""
        if not self.record.holder or self.modified is None:
            return None
        return self.modified + timedelta(seconds=self.record.seconds)


_NOBODY = RunLeaseRecord("", 0, 0.0)


class RunLease:
    """One runner's side of the lease of one run. `acquire` first, from one thread; after that all is thread-safe."""

    def __init__(self, objects: ObjectStore, key: str, clock: Clock, *, seconds: float = LEASE_SECONDS) -> None:
        self._objects = objects
        self._key = key
        self._clock = clock
        self._seconds = seconds
        self._identity = secrets.token_hex(8)
        # Replaced whole, by whoever renews; two renewals at once are told apart by the store.
        self._held: tuple[RunLeaseRecord, str, Elapsed] | None = None

    @property
    def holder(self) -> str:
        """What this runner is called in the lease: unique."""
        return self._identity

    @property
    def term(self) -> int:
        """The number of this holder; 0 if it holds nothing."""
        return self._held[0].term if self._held else 0

    def look(self, before: SeenRunLease | None = None) -> SeenRunLease:
        """The lease as it is now. `before` is what was seen of it last. Raises ObjectStoreError."""
        stored = self._objects.get(self._key)
        now = self._clock.monotonic()
        version = stored.version if stored else ABSENT
        since = before.since if before is not None and before.version == version else now
        if stored is None:
            return SeenRunLease(_NOBODY, ABSENT, 0.0, None, now, since)
        return SeenRunLease(_decoded(stored), version, stored.age, stored.modified, now, since)

    def take(self, seen: SeenRunLease) -> bool:
        """Take it over as it was seen, if it has run out; whether it is ours. Raises ObjectStoreError."""
        if seen.left > 0:
            return False
        return self._write(self._record(seen.record.term + 1), seen.version)

    def renew(self) -> None:
        """Renew it. Raises OwnershipLost if somebody else has taken it over, ObjectStoreError."""
        for _ in range(_TRIES):
            held = self._held
            if held is None:
                break
            record, version, since = held
            if self._write(self._record(record.term), version):
                return
            seen = self.look()
            if seen.record.holder != self._identity:
                break
            # Another thread of ours was faster. From when its renewal counts is not known here: from before it.
            self._held = (seen.record, seen.version, since)
        self._held = None
        raise OwnershipLost("another runner has taken the run over: it goes on there")

    def held(self) -> bool:
        """Whether it is ours, by each of our clocks. One that stands still while the machine sleeps is not enough."""
        held = self._held
        return held is not None and held[2].seconds < self._seconds

    def check(self) -> None:
        """Return if it is ours, renewing it if it has run out and nobody else has it.

        Raises OwnershipLost, ObjectStoreError.
        """
        if not self.held():
            self.renew()
        if not self.held():
            raise ObjectStoreError(f"{self._objects} answers too late: the lease had run out before it was renewed")

    def release(self) -> None:
        """Let others have it at once. Raises ObjectStoreError: it then runs out by itself."""
        held, self._held = self._held, None
        if held is None:
            return
        record = msgspec.structs.replace(held[0], holder="", stamp=secrets.token_hex(8))
        try:
            self._objects.put(self._key, msgspec.json.encode(record), held[1])
        except ObjectConflict:
            return  # it is somebody else's already

    def _record(self, term: int) -> RunLeaseRecord:
        stamp, host = secrets.token_hex(8), socket.gethostname()
        return RunLeaseRecord(self._identity, term, self._seconds, stamp, host, os.getpid(), kernel_id())

    def _write(self, record: RunLeaseRecord, version: str) -> bool:
        since = Elapsed(self._clock)
        try:
            now = self._objects.put(self._key, msgspec.json.encode(record), version)
        except ObjectConflict:
            return False
        self._held = (record, now, since)
        return True


def acquire(
    lease: RunLease,
    clock: Clock,
    what: str,
    *,
    wait: bool,
    tell: Callable[[str], object] = lambda _: None,
    stop: StopSignal | None = None,
    gone: Callable[[RunLeaseRecord], bool] = lambda _: False,
) -> None:
    """Get the lease; with `wait`, wait until the holder's has run out. `gone` says of a holder that it can't be alive.

    Raises RunInProgress if somebody else holds it: without `wait` at once, else as soon as it is seen to be renewed.
    """
    stop = stop or StopSignal()
    seen = lease.look()
    first = seen.version
    while True:
        if seen.left > 0 and gone(seen.record):
            seen = msgspec.structs.replace(seen, record=msgspec.structs.replace(seen.record, holder=""))
        if lease.take(seen):
            return
        if not wait or seen.version != first or stop.is_set():
            raise RunInProgress(f"{what} is under way: {owner_words(seen)}")
        if seen.left > 0:
            if seen.since == seen.at:
                tell(f"{what} was {owner_words(seen)}: waiting for {seen.left:.0f} s until it has run out")
            stop.wait(clock, min(seen.left + 0.1, _LOOK_SECONDS))
        seen = lease.look(seen)


def owner_words(seen: SeenRunLease) -> str:
    """Who holds a lease, and until when, for people."""
    if not seen.record.holder:
        return "held by nobody"
    until = f", until {seen.until:%Y-%m-%dT%H:%M:%SZ} unless renewed" if seen.until is not None else ""
    return f"held by {seen.record.host} (process {seen.record.process}){until}"


def kernel_id() -> str:
    """What tells this running kernel from every other; "" where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _decoded(stored: Stored) -> RunLeaseRecord:
    try:
        return msgspec.json.decode(stored.data, type=RunLeaseRecord)
    except UNDECODABLE as error:
        raise ObjectStoreError(f"a lease can't be read: {error}; remove it if no runner is at work") from error
