"""The ownership of a run or step: a lease that its holder renews, and that expires if the holder is gone.

Wrong clocks of other machines do no harm. The lease expires in the database's time. A holder counts the time from
*before* its last successful renewal, by its own clocks, and stops once the lease has expired by one of these clocks.
Every write is under the lease's term: a write of an earlier holder fails as soon as another holder has taken the lease
over.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable

from tfoperator.base.clock import Clock, Elapsed, Repetition, StopSignal
from tfoperator.launcher import LauncherError, LaunchInProgress, OwnershipLost
from tfoperator.pipeline.store.database import StoreError
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import Lease

logger = logging.getLogger(__name__)

LEASE_SECONDS = 30.0
"""How long a lease is valid without a renewal: long enough for an outage of the store, short enough to wait for."""
_CHECK_SECONDS = 2.0
_RENEWAL_SHARE = 0.25
"""The renewal period as a share of the lease's time: three renewals may fail."""


class RunInProgress(LaunchInProgress):
    """The run has a runner."""


class RunLease:
    """One runner's side of the lease of one run or step. Call `acquire` first, in one thread; the rest is thread-safe.

    While entered, a thread renews it; at the exit it is released. `when_lost` is called once, by that thread, if
    another has taken the run over, or the lease has run out because the store is away: then this holder has ended, even
    if the store comes back. With `kernel`, which identifies this machine since its last start, the caller also holds a
    lock of this kernel.
    """

    def __init__(
        self,
        store: MetadataStore,
        name: str,
        clock: Clock,
        *,
        seconds: float = LEASE_SECONDS,
        kernel: str = "",
        when_lost: Callable[[], object] = lambda: None,
    ) -> None:
        self._store = store
        self._name = name
        self._clock = clock
        self._seconds = seconds
        who = secrets.token_hex(8)
        self._mine = Lease(holder=who, host=socket.gethostname(), process=os.getpid(), kernel=kernel)
        self._since: Elapsed | None = None  # replaced as a whole by each renewal
        self.term = 0
        """The number of this holder; 0 before it holds it."""
        self._when_lost = when_lost
        self._renewal = Repetition(self._keep, seconds=seconds * _RENEWAL_SHARE, clock=clock, name="lease")
        self._lost: LauncherError | None = None  # set once

    def __enter__(self) -> RunLease:
        self._renewal.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._renewal.stop()
        try:
            if self._lost is None:
                self.release()
        except StoreError as error:
            logger.warning("the lease can't be released, and will expire: %s", error)

    def acquire(
        self, *, wait: bool, tell: Callable[[str], object] = lambda _: None, stop: StopSignal | None = None
    ) -> None:
        """Take the lease; with `wait`, wait until another holder's lease has expired.

        Raises RunInProgress if it has another holder: without `wait` at once, else as soon as that holder renews it.
        """
        what, stop = f"run {self._name}", stop or StopSignal()
        first: Lease | None = None
        while not self.take():
            seen = self._store.lease(self._name)
            until = f"until {seen.end:%Y-%m-%dT%H:%M:%SZ} unless renewed"
            owner = f"held by {seen.host} (process {seen.process}), {until}" if seen.holder else "held by nobody"
            renewed = first is not None and (seen.term, seen.until) != (first.term, first.until)
            if not wait or stop.is_set() or (renewed and seen.holder):
                raise RunInProgress(f"{what} is under way: {owner}")
            if first is None:
                tell(f"{what} was {owner}: waiting for {max(seen.left, 0.0):.0f} s until the lease has expired")
            first = seen
            stop.wait(self._clock, min(max(seen.left, 0.0) + 0.1, _CHECK_SECONDS))

    def take(self) -> bool:
        """Take it, if nobody holds it any more; return whether it is ours. Raises StoreError."""
        since = Elapsed(self._clock)
        self.term = self._store.take_lease(self._name, self._mine, self._seconds)
        self._since = since if self.term else None
        return self._since is not None

    def renew(self) -> None:
        """Renew it. Raises OwnershipLost if another runner has taken it over, StoreError."""
        since = Elapsed(self._clock)
        if self._since is None or not self._store.renew_lease(self._name, self._mine.holder, self._seconds):
            self._since = None
            raise OwnershipLost("another runner has taken over this run, and continues it")
        self._since = since

    def held(self) -> bool:
        """Return whether it is ours, by each of our clocks: a single clock may stop while the machine sleeps."""
        since = self._since
        return since is not None and since.seconds < self._seconds

    def check(self) -> None:
        """Return if it is ours, renewing it if it has expired and has no other holder.

        Raises OwnershipLost if it is another's, StoreError if that is unknown.
        """
        if self._lost is not None:
            raise self._lost
        if not self.held():
            self.renew()
        if not self.held():
            late = "the metadata store answers too late: the lease expired before it was renewed"
            raise StoreError(late, passing=True)

    def release(self) -> None:
        """Release it at once. Raises StoreError: it then expires by itself."""
        since, self._since = self._since, None
        if since is not None:
            self._store.renew_lease(self._name, self._mine.holder, 0.0)

    def _keep(self) -> None:
        if self._lost is not None:
            return
        try:
            self.renew()
        except OwnershipLost as error:
            self._lost = error
        except StoreError as error:
            logger.warning("the lease can't be renewed now; trying again: %s", error)
            self._lost = None if self.held() else error
        if self._lost is not None:
            self._when_lost()
