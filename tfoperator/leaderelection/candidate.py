"""One attempt of a candidate to get or renew the lease. The code has no loop and no thread.

The record in the lease is its `spec`: the holder, the times when the lease was acquired and renewed, and its duration.
These times come from the clocks of different machines, so the candidate never compares them. Instead, the candidate
measures on its *local* monotonic clock how long the record has not changed. If the record has not changed for its
`leaseDurationSeconds`, which the holder itself has written, another candidate may take the lease.
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
_FAILURES = (KubeError, msgspec.MsgspecError)  # no answer, a refusal, or a Lease that can't be decoded


class SeenLease(msgspec.Struct, frozen=True):
    """The lease in the state that was last seen.

    `since` is the time on the local monotonic clock since which the record in the lease has not changed.
    """

    lease: Lease | None = None
    since: float = -math.inf

    @property
    def holder(self) -> str:
        """The identity of the lease's holder.

        It is "" if the lease has no holder, or if the candidate has not read the lease yet.
        """
        return self.lease.record.holder if self.lease else ""


class Candidate:
    """Tries to become the holder of one lease.

    It keeps no state between attempts: the caller passes the state `seen`. So the caller can abandon an attempt that
    hangs, and this attempt can't disturb a later attempt. The methods don't raise KubeError: a failure of the server is
    logged, and the caller retries.
    """

    def __init__(self, lock: LeaseLock, *, lease_duration: float, clock: Clock) -> None:
        self._lock = lock
        self._lease_duration = lease_duration
        self._clock = clock

    def holds(self, seen: SeenLease) -> bool:
        """Return whether the lease, in this state, belongs to this candidate."""
        return seen.holder == self._lock.identity

    def attempt(self, seen: SeenLease) -> tuple[bool, SeenLease]:
        """Acquire or renew the lease.

        Return whether this candidate now holds it, and the state of the lease that was seen.
        """
        # The time of a renewal is the time before the request. Other candidates see the renewal later, so the lease
        # never expires earlier for them than for this candidate.
        started = self._clock.monotonic()
        if seen.lease is not None and self.holds(seen) and self._valid(seen, started):
            # Write without reading first. Mostly no other client has changed the lease, so one request is enough.
            try:
                return True, self._write(seen.lease, started)
            except _FAILURES as error:
                logger.debug("lease %s must be fetched before it can be renewed: %s", self._lock, error)
        try:
            lease = self._lock.get()
        except NotFoundError:
            if seen.holder and not self.holds(seen) and self._valid(seen, started):
                # Another client has deleted the lease. Its holder may not have noticed this yet, and may still work.
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
        """Release the lease if this candidate holds it, so another candidate can take it at once.

        Return False only if the candidate may still hold the lease, because a request failed. Before the candidate
        releases the lease, it *fetches* the lease and checks its holder. The state that was last seen may be outdated:
        another candidate may be the leader by now, and must keep its lease. In this case, return True.
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
                # Another client has changed the lease meanwhile. The loop fetches the lease again.
                continue
            except _FAILURES as error:
                logger.warning("lease %s can't be released, and will expire: %s", self._lock, error)
                return False
            logger.info("released lease %s", self._lock)
            return True
        logger.warning(
            "lease %s can't be released, and will expire: another client changed it during each of %d attempts",
            self._lock,
            _RELEASE_TRIES,
        )
        return False

    def _look(self, lease: Lease, before: SeenLease) -> SeenLease:
        same = before.lease is not None and before.lease.record == lease.record
        # If this candidate holds the lease and the record has changed, the response to its renewal was lost. The time
        # of that renewal is unknown, so the time of the renewal before it counts.
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
