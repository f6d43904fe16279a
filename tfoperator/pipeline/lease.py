"""The ownership of a run: a lease that its holder renews, and that expires if the holder is gone.

No clock of another machine is trusted. A holder counts the lease from *before* its last successful renewal, by its own
clocks, and stops once it has expired by one of them. Another runner takes it over when it has seen it unchanged
for longer than that on its own clock, or when it is older than that, by a margin, in the store's own time. Every write
is conditional on the version read: of two that take it over, or of a late renewal and a takeover,
one succeeds.
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
"""How long a lease is valid without a renewal: long enough for an outage of the store, short enough to wait for."""
_RATE_MARGIN = 1.05
"""The maximum ratio of the speeds of two machines' clocks."""
_STORE_MARGIN = 15.0
"""Maximum seconds between the clocks of one store's servers."""
_CHECK_SECONDS = 2.0
_TRIES = 5


class RunInProgress(LaunchInProgress):
    """The run has a runner."""


class RunLeaseRecord(msgspec.Struct, frozen=True):
    """The lease as it is stored. `term` counts the holders; `holder` is "" if there is none.

    `stamp` makes each write unique. `kernel` identifies a machine since its last
    start.
    """

    holder: str
    term: int
    seconds: float
    stamp: str = ""
    host: str = ""
    process: int = 0
    kernel: str = ""


class SeenRunLease(msgspec.Struct, frozen=True):
    """A lease as read, the time of the read (local, monotonic), and since when it is unchanged."""

    record: RunLeaseRecord
    version: str
    age: float
    modified: datetime | None
    at: float
    since: float

    @property
    def left(self) -> float:
        """The seconds for which it must still be considered valid; at most 0 if it has expired."""
        if not self.record.holder:
            return 0.0
        seconds = self.record.seconds * _RATE_MARGIN
        return min(self.since + seconds - self.at, seconds + _STORE_MARGIN - self.age)

    @property
    def overdue(self) -> bool:
        """Whether its holder is late to renew it: it hangs, is gone, or can't reach the store."""
        return bool(self.record.holder) and self.age > self.record.seconds

    @property
    def until(self) -> datetime | None:
        """When it expires, in the store's time, unless it is renewed; None if it has no holder."""
        if not self.record.holder or self.modified is None:
            return None
        return self.modified + timedelta(seconds=self.record.seconds)


_NOBODY = RunLeaseRecord("", 0, 0.0)


class RunLease:
    """One runner's side of the lease of one run. Call `acquire` first, in one thread; the rest is thread-safe."""

    def __init__(self, objects: ObjectStore, key: str, clock: Clock, *, seconds: float = LEASE_SECONDS) -> None:
        self._objects = objects
        self._key = key
        self._clock = clock
        self._seconds = seconds
        self._identity = secrets.token_hex(8)
        # Replaced as a whole by each renewal; the store resolves two concurrent renewals.
        self._held: tuple[RunLeaseRecord, str, Elapsed] | None = None

    @property
    def holder(self) -> str:
        """The unique name of this runner in the lease."""
        return self._identity

    @property
    def term(self) -> int:
        """The number of this holder; 0 if it holds nothing."""
        return self._held[0].term if self._held else 0

    def look(self, before: SeenRunLease | None = None) -> SeenRunLease:
        """Return the lease as it is now. `before` is its last observed state. Raises ObjectStoreError."""
        stored = self._objects.get(self._key)
        now = self._clock.monotonic()
        version = stored.version if stored else ABSENT
        since = before.since if before is not None and before.version == version else now
        if stored is None:
            return SeenRunLease(_NOBODY, ABSENT, 0.0, None, now, since)
        return SeenRunLease(_decoded(stored), version, stored.age, stored.modified, now, since)

    def take(self, seen: SeenRunLease) -> bool:
        """Take it over in the state seen, if it has expired; return whether it is ours. Raises ObjectStoreError."""
        if seen.left > 0:
            return False
        return self._write(self._record(seen.record.term + 1), seen.version)

    def renew(self) -> None:
        """Renew it. Raises OwnershipLost if another runner has taken it over, ObjectStoreError."""
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
            # Another thread of this runner was faster. The start of its renewal is unknown here: count from before it.
            self._held = (seen.record, seen.version, since)
        self._held = None
        raise OwnershipLost("another runner has taken the run over: it goes on there")

    def held(self) -> bool:
        """Return whether it is ours, by each of our clocks: one that stops while the machine sleeps is not enough."""
        held = self._held
        return held is not None and held[2].seconds < self._seconds

    def check(self) -> None:
        """Return if it is ours, renewing it if it has expired and has no other holder.

        Raises OwnershipLost, ObjectStoreError.
        """
        if not self.held():
            self.renew()
        if not self.held():
            raise ObjectStoreError(f"{self._objects} answers too late: the lease had run out before it was renewed")

    def release(self) -> None:
        """Release it at once. Raises ObjectStoreError: it then expires by itself."""
        held, self._held = self._held, None
        if held is None:
            return
        record = msgspec.structs.replace(held[0], holder="", stamp=secrets.token_hex(8))
        try:
            self._objects.put(self._key, msgspec.json.encode(record), held[1])
        except ObjectConflict:
            return  # it has another holder already

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
    """Get the lease; with `wait`, wait until the holder's has expired. `gone` tells whether a holder can't be alive.

    Raises RunInProgress if it has another holder: without `wait` at once, else as soon as that renews it.
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
            stop.wait(clock, min(seen.left + 0.1, _CHECK_SECONDS))
        seen = lease.look(seen)


def owner_words(seen: SeenRunLease) -> str:
    """Return the holder of a lease, and its expiry, for users."""
    if not seen.record.holder:
        return "held by nobody"
    until = f", until {seen.until:%Y-%m-%dT%H:%M:%SZ} unless renewed" if seen.until is not None else ""
    return f"held by {seen.record.host} (process {seen.record.process}){until}"


def kernel_id() -> str:
    """Return an identifier of this running kernel; "" where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _decoded(stored: Stored) -> RunLeaseRecord:
    try:
        return msgspec.json.decode(stored.data, type=RunLeaseRecord)
    except UNDECODABLE as error:
        raise ObjectStoreError(f"a lease can't be read: {error}; remove it if no runner is at work") from error
