"""Time as a parameter: each component that waits or compares times gets a `Clock`, so tests can run on virtual time.

A caller waits "until this condition is notified or this *deadline* passes", never "for this long". If the clock moves
after the caller has computed the deadline and before the wait begins, the deadline is still right. So a virtual clock
has no races.

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
        """Return the wall-clock time, timezone-aware, in UTC.

        The clock may jump; use it for timestamps that people read.
        """
        ...

    def monotonic(self) -> float:
        """Return the seconds from an arbitrary origin, never going back. Use it for durations and deadlines."""
        ...

    def wait_until(self, condition: threading.Condition, deadline: float | None) -> bool:
        """Wait until `condition` is notified or `deadline` (on `monotonic()`) passes; None waits without limit.

        The caller must hold the condition's lock, as for `threading.Condition.wait`. After the wait the caller must
        check its predicate again, because the wait may end without a reason. Returns False only if the deadline has
        passed.
        """
        ...


class SystemClock:
    """The real time."""

    def now(self) -> datetime:
        """Return the system's wall-clock time in UTC."""
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)  # no wrapper, because hot paths call it often

    def wait_until(self, condition: threading.Condition, deadline: float | None) -> bool:
        """Wait on the condition until the deadline at most; see `Clock.wait_until`."""
        if deadline is None:
            condition.wait()
            return True
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        return condition.wait(min(remaining, threading.TIMEOUT_MAX))


class Elapsed:
    """The time since the object was created.

    It is the larger of the times on the monotonic clock and on the wall clock: on Linux, the monotonic clock stops
    while the machine is suspended.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._monotonic, self._wall = clock.monotonic(), clock.now()

    @property
    def seconds(self) -> float:
        """The seconds that have passed; too many if somebody set the wall clock forward."""
        wall = (self._clock.now() - self._wall).total_seconds()
        return max(self._clock.monotonic() - self._monotonic, wall)


class StopSignal:
    """A signal that is set once and never reset; like `threading.Event`, but threads wait for it on a given clock.

    Thread-safe. `set()` may be called any number of times, from any thread. Don't call `set()` in a signal handler: the
    handler may interrupt a `wait` of the same thread while this `wait` uses the condition. Call `set()` in another
    thread instead.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()  # guards _set
        self._set = False

    def set(self) -> None:
        """Set the signal: each `wait` ends, and each later `wait` returns at once."""
        with self._condition:
            self._set = True
            self._condition.notify_all()

    def is_set(self) -> bool:
        """Return whether `set()` has been called."""
        return self._set

    def wait(self, clock: Clock, seconds: float | None = None) -> bool:
        """Sleep `seconds` on `clock` (None: without limit), or until the signal is set.

        Returns whether the signal is set.
        """
        return self.wait_until(clock, None if seconds is None else clock.monotonic() + seconds)

    def wait_until(self, clock: Clock, deadline: float | None) -> bool:
        """Sleep until the deadline on `clock` (None: without limit), or until the signal is set.

        Returns whether the signal is set.
        """
        with self._condition:
            while not self._set:
                if not clock.wait_until(self._condition, deadline):
                    break
            return self._set


class Repetition:
    """Calls a function in its own thread, at once and then every few seconds.

    `start` and `stop` may be called any number of times; after the first `stop` the calls never start again.
    Thread-safe.
    """

    def __init__(self, call: Callable[[], float | None], *, seconds: float, clock: Clock, name: str) -> None:
        """Initialize; `name` is the name of the thread. Exceptions of the function are logged and have no other effect.

        The function may return the seconds until the next call, instead of `seconds`.
        """
        self._call = call
        self._seconds = seconds
        self._clock = clock
        self._changed = threading.Condition()  # guards the two below, and ensures that the thread is started once
        self._stopped = self._woken = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread that calls the function, unless it has started already."""
        with self._changed:
            if self._thread.ident is None and not self._stopped:
                self._thread.start()

    def wake(self) -> None:
        """Let the thread call the function now; if the function is running, it is called once more afterwards.

        Does not block.
        """
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def stop(self, timeout: float | None = None) -> None:
        """End the thread; if the function is running, wait for it for up to `timeout` seconds of real time.

        Idempotent.
        """
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
    if moment.tzinfo is not UTC:
        moment = utc(moment).astimezone(UTC)
    return moment.replace(microsecond=0)


def utc(moment: datetime) -> datetime:
    """Return the time with its zone; a naive time is in UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
