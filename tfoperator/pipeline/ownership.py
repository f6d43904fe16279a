"""Ownership of a run or step: its lease, renewed by a thread, and further resources that are held with it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack

from tfoperator.base.clock import Clock, Repetition
from tfoperator.launcher import LauncherError, OwnershipLost
from tfoperator.pipeline.lease import RunLease
from tfoperator.pipeline.store.limits import StoreError

logger = logging.getLogger(__name__)

_RENEWAL_SHARE = 0.25
"""The renewal period as a share of the lease's time: three renewals may fail."""


class Ownership:
    """Held while entered; at the exit the lease is released, and then `held`, the other resources, closed.

    `check` from any thread. `when_lost` is called once, by the renewing thread, if another has taken the run over, or
    the lease has run out because the store is away: then this holder has ended, even if the store comes back.
    """

    def __init__(self, lease: RunLease, clock: Clock, held: ExitStack, seconds: float) -> None:
        """The lease, of this many seconds, is taken already."""
        self.term = lease.term
        self._lease = lease
        self._held = held
        self._renewal = Repetition(self._renew, seconds=seconds * _RENEWAL_SHARE, clock=clock, name="lease")
        self._lost: LauncherError | None = None  # set once
        self.when_lost: Callable[[], object] = lambda: None

    def __enter__(self) -> Ownership:
        self._renewal.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._held:
            self._renewal.stop()
            try:
                if self._lost is None:
                    self._lease.release()
            except StoreError as error:
                logger.warning("the lease is not given back, and runs out by itself: %s", error)

    def check(self) -> None:
        """Raise OwnershipLost if the run is another runner's, StoreError if that is unknown."""
        if self._lost is not None:
            raise self._lost
        self._lease.check()

    def _renew(self) -> None:
        if self._lost is not None:
            return
        try:
            self._lease.renew()
        except OwnershipLost as error:
            self._end(error)
        except StoreError as error:
            logger.warning("the lease can't be renewed, and will be tried again: %s", error)
            if not self._lease.held():
                self._end(error)

    def _end(self, why: LauncherError) -> None:
        self._lost = why
        self.when_lost()
