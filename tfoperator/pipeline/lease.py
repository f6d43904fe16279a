"""The ownership of a run or step: a lease in the metadata store, which expires unless its holder renews it.

A wrong clock on a machine does no harm, because the clock of the database decides when another runner may take the
lease. The holder measures the time since it *sent* its last successful renewal, with several clocks of its machine. The
holder stops as soon as the lease has expired by one of these clocks. Each time a holder takes the lease, the term of
the lease increases, and each write to the store names the writer's term. So a write by an earlier holder fails.
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
from tfoperator.pipeline.store.records import RecordedLease

logger = logging.getLogger(__name__)

LEASE_SECONDS = 30.0
"""The seconds for which a lease is valid without a renewal. A holder survives a shorter outage of the store. After the
death of a holder, another runner waits up to this time.
"""
_CHECK_SECONDS = 2.0
_RENEWAL_SHARE = 0.25
"""The renewal period as a share of the lease's time. So three renewals in a row may fail before the lease expires."""


class RunInProgress(LaunchInProgress):
    """The run already has a runner."""


class RunLease:
    """The lease of a run or step, as its holder sees it.

    First call `acquire`, in one thread. All other methods are thread-safe. In a `with` block, a thread renews the
    lease, and the end of the block releases it.

    The renewing thread calls `when_lost` once, if another runner has taken over the run, or if the lease has expired
    because the store does not respond. After this call, the lease stays lost, even if the store responds again.

    `kernel` is recorded with the lease. If the caller also holds a file lock for the run, `kernel` is the boot id of
    this machine's kernel. If not, `kernel` is "".
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
        self._mine = RecordedLease(holder=who, host=socket.gethostname(), process=os.getpid(), kernel=kernel)
        self._since: Elapsed | None = None  # replaced as a whole by each renewal
        self.term = 0
        """The number of this holder (0 before `acquire`). Each new holder of the lease gets a larger number."""
        self._when_lost = when_lost
        self._renewal = Repetition(self._keep, seconds=seconds * _RENEWAL_SHARE, clock=clock, name="lease")
        self._lost: LauncherError | None = None  # the reason why the lease is lost; set once

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
        """Take the lease. With `wait`, wait until the lease of another holder has expired.

        Raises RunInProgress if the lease has another holder: without `wait` at once, and with `wait` as soon as the
        other holder renews the lease or `stop` is set. `tell` gets a message for the user when the wait begins.
        """
        what, stop = f"run {self._name}", stop or StopSignal()
        first: RecordedLease | None = None
        while not self.take():
            lease = self._store.lease(self._name)
            until = f"until {lease.end:%Y-%m-%dT%H:%M:%SZ} unless renewed"
            owner = f"held by {lease.host} (process {lease.process}), {until}" if lease.holder else "held by nobody"
            renewed = first is not None and (lease.term, lease.until) != (first.term, first.until)
            if not wait or stop.is_set() or (renewed and lease.holder):
                raise RunInProgress(f"{what} is under way: {owner}")
            if first is None:
                tell(f"{what} is still {owner}: waiting for {max(lease.left, 0.0):.0f} s until the lease has expired")
            first = lease
            stop.wait(self._clock, min(max(lease.left, 0.0) + 0.1, _CHECK_SECONDS))

    def take(self) -> bool:
        """Take the lease if it is free or expired; return whether this holder has it now. Raises StoreError."""
        since = Elapsed(self._clock)
        self.term = self._store.take_lease(self._name, self._mine, self._seconds)
        self._since = since if self.term else None
        return self._since is not None

    def renew(self) -> None:
        """Renew the lease. Raises OwnershipLost if another runner has taken over the lease. Raises StoreError."""
        since = Elapsed(self._clock)
        if self._since is None or not self._store.renew_lease(self._name, self._mine.holder, self._seconds):
            self._since = None
            raise OwnershipLost("another runner has taken over this run, and continues it")
        self._since = since

    def held(self) -> bool:
        """Return whether the lease is valid by all clocks of this machine.

        The method uses several clocks, because some clocks stop while the machine sleeps.
        """
        since = self._since
        return since is not None and since.seconds < self._seconds

    def check(self) -> None:
        """Return normally if this holder has the lease. If the lease has expired, try to renew it first.

        Raises OwnershipLost if another runner has taken over the lease. Raises StoreError if the store can't be
        reached.
        """
        if self._lost is not None:
            raise self._lost
        if not self.held():
            self.renew()
        if not self.held():
            late = "the metadata store answers too late: the lease expired before it was renewed"
            raise StoreError(late, passing=True)

    def release(self) -> None:
        """Release the lease at once. If this method raises StoreError, the lease expires by itself."""
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
