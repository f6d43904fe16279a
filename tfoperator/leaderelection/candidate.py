"""One attempt at the lease: a candidate's reads, decisions and writes. No loop, no thread.

Times in the lease come from other machines' clocks and are never compared. The candidate measures the *local* monotonic
time since the record last changed as this candidate saw it. If a holder has not renewed for the duration that it wrote
itself, it counts as gone.
"""

from __future__ import annotations

import logging
import math

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.kube.protocol.errors import ConflictError, KubeError, NotFoundError
from tfoperator.leaderelection.lease import Lease, LeaseLock, LeaseRecord

logger = logging.getLogger(__name__)

_RELEASE_TRIES = 5
_FAILURES = (KubeError, msgspec.MsgspecError)  # no answer, a refusal, or a Lease that can't be read


class SeenLease(msgspec.Struct, frozen=True):
    """The lease as last seen, and the (local, monotonic) time since which its record is unchanged."""

    lease: Lease | None = None
    since: float = -math.inf

    @property
    def holder(self) -> str:
        """The lease's holder; empty if there is none or none was seen."""
        return self.lease.record.holder if self.lease else ""


class Candidate:
    """Tries to hold one lease. Keeps no state between attempts, so an attempt that hangs can be abandoned safely.

    Methods don't raise KubeError: a server failure is logged and retried.
    """

    def __init__(self, lock: LeaseLock, *, lease_duration: float, clock: Clock) -> None:
        self._lock = lock
        self._lease_duration = lease_duration
        self._clock = clock

    def holds(self, seen: SeenLease) -> bool:
        """Return whether the lease, as seen, is this candidate's."""
        return seen.holder == self._lock.identity

    def attempt(self, seen: SeenLease) -> tuple[bool, SeenLease]:
        """Acquire or renew the lease; return whether it is this candidate's now, and the lease as seen."""
        # A lease of this candidate counts from before the request: others can see the renewal no earlier than that.
        started = self._clock.monotonic()
        if seen.lease is not None and self.holds(seen) and self._valid(seen, started):
            # Most renewals find an unchanged lease, so one request is enough.
            try:
                return True, self._write(seen.lease, started)
            except _FAILURES as error:
                logger.debug("lease %s must be fetched before it can be renewed: %s", self._lock, error)
        try:
            lease = self._lock.get()
        except NotFoundError:
            if seen.holder and not self.holds(seen) and self._valid(seen, started):
                # Another client has deleted it. Its holder has not noticed that yet, and still works.
                return False, seen
            return self._create(seen, started)
        except _FAILURES as error:
            logger.warning("lease %s can't be read: %s", self._lock, error)
            return False, seen
        seen = self._look(lease, seen)
        if seen.holder and not self.holds(seen) and self._valid(seen, started):
            return False, seen
        try:
            return True, self._write(lease, started)
        except ConflictError:
            logger.debug("another process has written lease %s", self._lock)
        except _FAILURES as error:
            logger.warning("lease %s can't be written: %s", self._lock, error)
        return False, seen

    def release(self) -> bool:
        """Release the lease if this candidate has it, so that another can take it at once; return False if that failed.

        The *fetched* holder counts: the holder last seen may be outdated, and a release because of it would take the
        lease from a new leader.
        """
        for _ in range(_RELEASE_TRIES):
            try:
                lease = self._lock.get()
                if lease.record.holder != self._lock.identity:
                    return True
                now = self._clock.now()
                self._lock.update(lease, LeaseRecord("", 1, now, now, lease.record.transitions))
            except NotFoundError:
                return True
            except ConflictError:
                # Fetching again is enough: other candidates don't compete for a lease that is held.
                continue
            except _FAILURES as error:
                logger.warning("lease %s can't be released, and will expire: %s", self._lock, error)
                return False
            logger.info("released lease %s", self._lock)
            return True
        logger.warning("lease %s can't be released, and will expire: it changed %d times", self._lock, _RELEASE_TRIES)
        return False

    def _look(self, lease: Lease, before: SeenLease) -> SeenLease:
        same = before.lease is not None and before.lease.record == lease.record
        # If the answer to this candidate's renewal was lost, its time is unknown: the renewal before it counts.
        if same or lease.record.holder == self._lock.identity:
            return SeenLease(lease, before.since)
        return SeenLease(lease, self._clock.monotonic())

    def _create(self, seen: SeenLease, started: float) -> tuple[bool, SeenLease]:
        try:
            return True, SeenLease(self._lock.create(self._record(LeaseRecord(acquired=self._clock.now()))), started)
        except _FAILURES as error:
            logger.warning("lease %s can't be created: %s", self._lock, error)
            return False, seen

    def _write(self, lease: Lease, started: float) -> SeenLease:
        term = lease.record
        if term.holder != self._lock.identity:
            term = LeaseRecord(acquired=self._clock.now(), transitions=term.transitions + 1)
        return SeenLease(self._lock.update(lease, self._record(term)), started)

    def _record(self, term: LeaseRecord) -> LeaseRecord:
        return LeaseRecord(
            holder=self._lock.identity,
            duration_seconds=math.ceil(self._lease_duration),
            acquired=term.acquired,
            renewed=self._clock.now(),
            transitions=term.transitions,
        )

    def _valid(self, seen: SeenLease, now: float) -> bool:
        duration = seen.lease.record.duration_seconds if seen.lease else 0
        return now < seen.since + (duration or self._lease_duration)
