"""Elects one leader among the operator's replicas, so two replicas never act on the same jobs.

A leader renews its lease every `retry_period`. A candidate takes over the lease if it has seen no change of the lease
for the lease's own duration. A leader that can't renew the lease stops leading `renew_deadline` (10 s) after its last
renewal. Other candidates can take over only after `lease_duration` (15 s). In the 5 s between these two times, the work
of the old leader must end.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.leaderelection.candidate import Candidate, SeenLease
from tfoperator.leaderelection.lease import LeaseLock

logger = logging.getLogger(__name__)

R = TypeVar("R")

_JITTER = 1.2  # candidates wait retry_period * (1 to 2.2), so that their requests are spread


class _Work:
    """Runs the leader's work in its own thread. `ended` is set when the work has ended. `error` is its exception."""

    def __init__(self, body: Callable[[StopSignal], None]) -> None:
        self.stop = StopSignal()
        self.ended = StopSignal()
        self.error: Exception | None = None
        self._body = body
        self._thread = threading.Thread(target=self._run, name="leading", daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            self._body(self.stop)
        except Exception as error:
            logger.exception("the leader's work has failed, so this process gives up the lease")
            self.error = error
        finally:
            self.ended.set()


class LeaderElector:
    """Competes for a lease, runs the leader's work while this process holds the lease, and reports each new holder.

    The elector calls `on_new_leader(identity)` when it sees a new holder. The new holder may be this process.
    `on_new_leader` must return quickly.

    Durations are in seconds. They must satisfy `lease_duration > renew_deadline > 1.2 * retry_period`, so a leader can
    miss one renewal, and still notices in time that it has lost the lease. `operator.options.checks` checks these
    conditions. Any thread may read the properties.
    """

    def __init__(
        self,
        lock: LeaseLock,
        *,
        on_new_leader: Callable[[str], None],
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._lock = lock
        self._on_new_leader = on_new_leader
        self._lease_duration = lease_duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._clock: Clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._candidate = Candidate(lock, lease_duration=lease_duration, clock=self._clock)
        # Only the thread in `run` sets this field, always to a new object. So other threads may read it without a lock.
        self._seen = SeenLease()
        self._over = False
        self._reported = ""

    @property
    def is_leader(self) -> bool:
        """Whether this process may act as leader *now*: it holds the lease, and the lease has not run out.

        The value depends on the clock: it becomes False when the lease runs out, even if the thread in `run` is
        blocked.
        """
        seen = self._seen
        return (
            not self._over
            and self._candidate.holds(seen)
            and self._clock.monotonic() < seen.since + self._lease_duration
        )

    def run(self, stop: StopSignal, on_started_leading: Callable[[StopSignal], None]) -> None:
        """Wait for the lease, then lead. Return after `stop` was set, or when the lease is lost.

        `on_started_leading(stop)` starts in its own thread when this process gets the lease. The function must end its
        work when `stop` is set, and must return only after its work has ended: the elector renews the lease until the
        function returns, and only then releases the lease. If the function raises an exception, the lease is released
        and `run` raises the same error.

        The call blocks. When `stop` is set, the call returns as soon as the work has ended. If a request hangs, this
        can take `renew_deadline` longer. If the lease was lost, the process should exit, because work that it could not
        stop in time may still run. `run` must not be called twice.
        """
        try:
            if self._acquire(stop):
                self._lead(stop, on_started_leading)
        finally:
            self._over = True

    def _acquire(self, stop: StopSignal) -> bool:
        logger.info("waiting for lease %s as %s", self._lock, self._lock.identity)
        while not stop.is_set():
            if self._attempt_until(self._clock.monotonic() + self._renew_deadline):
                logger.info("acquired lease %s as %s", self._lock, self._lock.identity)
                return True
            stop.wait(self._clock, self._retry_period * (1 + _JITTER * self._rng.random()))
        return False

    def _lead(self, stop: StopSignal, on_started_leading: Callable[[StopSignal], None]) -> None:
        work = _Work(on_started_leading)
        # Renew the lease until the work has ended, because another leader must not start before.
        kept = self._keep(stop, work)
        work.stop.set()
        kept = kept and self._keep(work.ended, work)
        if not kept:
            self._over = True
            logger.error("lost lease %s: no longer leading", self._lock)
            if self._candidate.holds(self._seen):
                left = self._seen.since + self._lease_duration - self._clock.monotonic()
                work.ended.wait(self._clock, max(0.0, left))
            return
        work.join()
        self._release()
        if work.error is not None:
            raise work.error

    def _keep(self, until: StopSignal, work: _Work) -> bool:
        """Renew the lease until `until` is set, or until the work has failed. Then return True.

        Return False as soon as the lease is lost: another candidate holds it, or it could not be renewed for
        `renew_deadline` seconds.
        """
        renewed = self._seen.since
        while not until.wait(self._clock, self._pause(renewed)) and work.error is None:
            deadline = renewed + self._renew_deadline
            if self._attempt_until(deadline):
                renewed = self._seen.since
            elif not self._candidate.holds(self._seen) or self._clock.monotonic() >= deadline:
                return False
        return True

    def _pause(self, renewed: float) -> float:
        return max(0.0, min(self._retry_period, renewed + self._renew_deadline - self._clock.monotonic()))

    def _attempt_until(self, deadline: float) -> bool:
        if self._clock.monotonic() >= deadline:
            return False
        seen = self._seen
        try:
            held, self._seen = call_with_deadline(
                lambda: self._candidate.attempt(seen), clock=self._clock, deadline=deadline, name=f"lease {self._lock}"
            )
        except TimeoutError as error:
            logger.warning("%s", error)
            return False
        self._report()
        return held

    def _release(self) -> None:
        deadline = self._clock.monotonic() + self._renew_deadline
        try:
            call_with_deadline(
                self._candidate.release, clock=self._clock, deadline=deadline, name=f"lease {self._lock}"
            )
        except TimeoutError as error:
            logger.warning("%s: the lease can't be released, and will expire", error)

    def _report(self) -> None:
        holder = self._seen.holder
        if holder == self._reported:
            return
        self._reported = holder
        if not holder:
            return
        try:
            self._on_new_leader(holder)
        except Exception:
            # An error of the callback must not end the thread that renews the lease.
            logger.exception("the callback for a new leader has failed")


def call_with_deadline(call: Callable[[], R], *, clock: Clock, deadline: float, name: str) -> R:
    """Return the result of `call`, or raise its error, or raise TimeoutError at `deadline`.

    `deadline` is a time of `clock.monotonic()`. Another thread can't interrupt a call that is blocked in a socket. So
    the call runs in its own thread, which is abandoned at the deadline. This thread ends when the socket times out.
    A result after the deadline is discarded. `call` must have no effect except its return value, since it may end after
    the deadline. `name` is the name of the thread.
    """
    outcome: Future[R] = Future()
    ended = StopSignal()

    def run() -> None:
        try:
            outcome.set_result(call())
        except Exception as error:  # noqa: BLE001 - handed to the caller, who raises it
            outcome.set_exception(error)
        ended.set()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    if not ended.wait_until(clock, deadline):
        raise TimeoutError(f"{name} got no answer in time")
    thread.join()
    return outcome.result()
