"""A lease that several processes hold together: it is theirs as long as one of them renews it.

They share an identity, so each of them may renew it, and nobody else can get it before the last has stopped. Usually
one of them writes. The others see that the record has changed since they last looked, and count from *then*, which is
before the change was made. A competitor can't have seen it any earlier, so it waits for longer than any of them works.
"""

from __future__ import annotations

import logging
import math

import msgspec

from tfoperator.kube.errors import NotFoundError
from tfoperator.leaderelection.candidate import FAILURES, Candidate, Seen
from tfoperator.leaderelection.lease import LeaseRecord

logger = logging.getLogger(__name__)


def shared_since(before: Seen, record: LeaseRecord, identity: str) -> float | None:
    """From when a lease counts that now has this record, if somebody else of our identity has renewed it. Pure.

    None if it has to be renewed, or is not ours.
    """
    if record.holder != identity or before.lease is None or before.lease.record == record:
        return None
    return before.looked


class SharedCandidate(Candidate):
    """A `Candidate` for a lease that others with the same identity may hold at the same time. It is never released."""

    def attempt(self, seen: Seen) -> tuple[bool, Seen]:
        """As `Candidate.attempt`; reads first, and writes only if nobody else has."""
        started = self._clock.monotonic()
        if not self.holds(seen):
            return self._attempt(seen, started)
        try:
            lease = self._lock.get()
        except NotFoundError:
            return self._attempt(seen, started)
        except FAILURES as error:
            logger.warning("lease %s can't be read: %s", self._lock, error)
            return False, seen
        if self._was_lost_between(seen, lease.record):
            logger.warning("lease %s was somebody else's meanwhile", self._lock)
            return False, Seen()
        since = shared_since(seen, lease.record, self._lock.identity)
        if since is not None and started < since + self._lease_duration:
            return True, Seen(lease, since, started)
        if lease.record.holder != self._lock.identity:
            # Of another's lease it counts from after the answer on: that is how long we have to wait.
            return False, self._look(lease, seen)
        try:
            return True, msgspec.structs.replace(self._write(lease, started), looked=started)
        except FAILURES as error:
            # Mostly another of us was faster, which the next look shows.
            logger.debug("lease %s can't be written: %s", self._lock, error)
        return False, Seen(lease, seen.since, started)

    def _was_lost_between(self, seen: Seen, record: LeaseRecord) -> bool:
        """Whether another identity had it since it was seen, which a machine that was suspended has not noticed."""
        return (
            record.holder == self._lock.identity
            and seen.lease is not None
            and record.transitions > seen.lease.record.transitions
        )

    def _record(self, term: LeaseRecord) -> LeaseRecord:
        """As of any candidate, and good for as long as the most patient of those who share it believes."""
        record = super()._record(term)
        return msgspec.structs.replace(record, duration_seconds=max(record.duration_seconds, term.duration_seconds))

    def release(self) -> bool:
        """Leave it to those who share it; whoever is the last lets it expire."""
        return True

    def _attempt(self, before: Seen, started: float) -> tuple[bool, Seen]:
        held, seen = super().attempt(before)
        if seen is before:
            return held, seen
        # What was seen of another's lease says nothing about ours.
        since = seen.since if held or not self.holds(seen) else -math.inf
        return held, Seen(seen.lease, since, started)
