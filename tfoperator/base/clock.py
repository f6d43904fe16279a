"""Time, injected: every component that waits or compares times takes a `Clock`, so tests run on virtual time.

A wait is "until this condition is notified or this *deadline* passes", never "for this long": a
deadline stays right when the clock moves between its computation and the start of the wait, which makes a virtual clock
free of races.

Timestamps of other programs may be missing, naive, in the future or absurd: functions here never raise because of them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

logger = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """The project's interface to time. Implementations are thread-safe."""

    def now(self) -> datetime:
        """Return the wall-clock time, timezone-aware, in UTC. May jump; use it for timestamps that people read."""
        ...

    def monotonic(self) -> float:
        """Return the seconds from an arbitrary origin, never going back. Use it for durations and deadlines."""
        ...

    def wait_until(self, condition: threading.Condition, deadline: float | None) -> bool:
        """Wait until `condition` is notified or `deadline` (on `monotonic()`) passes; None waits without limit.

        The caller holds the condition's lock, as for `threading.Condition.wait`, and checks its predicate
        again afterwards: wake-ups may be spurious. Returns False only if the deadline has passed.
        """
        ...


class SystemClock:
    """The real time."""

    def now(self) -> datetime:
        """Return the system's wall-clock time in UTC."""
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)  # no wrapper, since it is called several times a request and event

    def wait_until(self, condition: threading.Condition, deadline: float | None) -> bool:
        """Wait on the condition for the rest of the time until the deadline; see `Clock.wait_until`."""
        if deadline is None:
            condition.wait()
            return True
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        return condition.wait(min(remaining, threading.TIMEOUT_MAX))


class Elapsed:
    """The time since it was made, by the clock that advanced more: one of the clocks stops while the machine sleeps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._monotonic, self._wall = clock.monotonic(), clock.now()

    @property
    def seconds(self) -> float:
        """The seconds that have passed; too many if the wall clock was put forward."""
        wall = (self._clock.now() - self._wall).total_seconds()
        return max(self._clock.monotonic() - self._monotonic, wall)


class StopSignal:
    """A one-way switch that threads can wait on with an injected clock, like a closed channel in Go.

    Thread-safe. `set()` may be called any number of times, from any thread. Don't call it in a signal handler, which
    may have interrupted a `wait`: call it in a thread instead.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()  # guards _set
        self._set = False

    def set(self) -> None:
        """Stop: wake every waiter, now and in the future."""
        with self._condition:
            self._set = True
            self._condition.notify_all()

    def is_set(self) -> bool:
        """Return whether `set()` has been called."""
        return self._set

    def wait(self, clock: Clock, seconds: float | None = None) -> bool:
        """Sleep `seconds` on `clock` (None: without limit) unless stopped before. Returns whether it is set."""
        return self.wait_until(clock, None if seconds is None else clock.monotonic() + seconds)

    def wait_until(self, clock: Clock, deadline: float | None) -> bool:
        """Sleep until the deadline on `clock` (None: without limit) unless stopped. Returns whether it is set."""
        with self._condition:
            while not self._set:
                if not clock.wait_until(self._condition, deadline):
                    break
            return self._set


class Repetition:
    """Calls a function every few seconds in its own thread, the first time at once.

    `start` and `stop` may be called any number of times; the first stop is final. Thread-safe.
    """

    def __init__(self, call: Callable[[], float | None], *, seconds: float, clock: Clock, name: str) -> None:
        """Initialize; `name` is the thread's. Exceptions of the function are logged and have no other effect.

        The function may return the seconds until the next call, instead of `seconds`.
        """
        self._call = call
        self._seconds = seconds
        self._clock = clock
        self._changed = threading.Condition()  # guards the two below, and ensures that the thread is started once
        self._stopped = self._woken = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the calls, unless they have started."""
        with self._changed:
            if self._thread.ident is None and not self._stopped:
                self._thread.start()

    def wake(self) -> None:
        """Call the function now, or once more if it is running. Does not block."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def stop(self, timeout: float | None = None) -> None:
        """End the thread, and wait for a running call, for up to `timeout` real seconds. Idempotent."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            started = self._thread.ident is not None
        if started:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopped:
            with self._changed:
                self._woken = False
            pause = None
            try:
                pause = self._call()
            except Exception:
                logger.exception("%s failed unexpectedly", self._thread.name)
            deadline = self._clock.monotonic() + (self._seconds if pause is None else pause)
            with self._changed:
                while not self._stopped and not self._woken:
                    if not self._clock.wait_until(self._changed, deadline):
                        break


def seconds_between(earlier: datetime, later: datetime) -> float:
    """Return the seconds from `earlier` to `later`, negative in reverse order. A naive time counts as UTC."""
    return (utc(later) - utc(earlier)).total_seconds()


def epoch_seconds(moment: datetime | None) -> float:
    """Return the seconds since 1970 as a sort key; a missing time sorts as 1970."""
    return 0.0 if moment is None else seconds_between(_EPOCH, moment)


def whole_second(moment: datetime) -> datetime:
    """Return the time as a status records it: UTC, cut to the second, since Kubernetes' times have no fractions."""
    return utc(moment).astimezone(UTC).replace(microsecond=0)


def utc(moment: datetime) -> datetime:
    """Return the time with its zone; a naive time is in UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
