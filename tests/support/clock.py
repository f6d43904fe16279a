"""Virtual time for tests: it moves only when a test says so."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta


class FakeClock:
    """A `tfoperator.clock.Clock` that stands still until `advance()`.

    Threads that wait on it are woken when the deadline they wait for is reached. `wait_for_waiters` lets a
    test be sure that a thread has come to rest before time moves on; its own limit is real time.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._changed = threading.Condition()  # guards everything below
        self._start = start
        self._elapsed = 0.0
        self._wall_offset = timedelta(0)
        self._waiters: dict[object, tuple[threading.Condition, float | None]] = {}

    def now(self) -> datetime:
        with self._changed:
            return self._start + timedelta(seconds=self._elapsed) + self._wall_offset

    def monotonic(self) -> float:
        with self._changed:
            return self._elapsed

    def wait_until(self, condition: threading.Condition, deadline: float | None) -> bool:
        token = object()
        with self._changed:
            if deadline is not None and deadline <= self._elapsed:
                return False
            self._waiters[token] = (condition, deadline)
            self._changed.notify_all()
        try:
            # The guard only ends a test that would hang for ever; nothing depends on its length.
            condition.wait(60)
        finally:
            with self._changed:
                del self._waiters[token]
                self._changed.notify_all()
                expired = deadline is not None and deadline <= self._elapsed
        return not expired

    def advance(self, seconds: float) -> None:
        """Move time forward and wake every waiter whose deadline has come."""
        with self._changed:
            self._elapsed += seconds
            due = [c for c, d in self._waiters.values() if d is not None and d <= self._elapsed]
        for condition in due:
            with condition:
                condition.notify_all()

    def jump_wall(self, seconds: float) -> None:
        """Step the wall clock (as NTP or an administrator would) without monotonic time passing."""
        with self._changed:
            self._wall_offset += timedelta(seconds=seconds)

    def wait_for_waiters(self, count: int = 1, *, timed: bool = True, limit: float = 10.0) -> None:
        """Block (really) until `count` threads wait on this clock; `timed` counts only those with a deadline.

        A thread whose deadline has come does not count: it is about to wake, not at rest.

        Raises AssertionError after `limit` real seconds.
        """
        end = time.monotonic() + limit
        with self._changed:
            while True:
                waiting = sum(1 for _, d in self._waiters.values() if (not timed if d is None else d > self._elapsed))
                if waiting >= count:
                    return
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"only {waiting} of {count} threads wait on the clock after {limit} s")
                self._changed.wait(left)

    def wait_for_deadline(self, deadline: float | None, *, limit: float = 10.0) -> None:
        """Block (really) until a thread waits for exactly this time on `monotonic()`, or without limit for None.

        Stricter than `wait_for_waiters`, which can't tell a thread at rest from one that was notified but has not
        run yet: that one still waits for its *old* deadline. Raises AssertionError after `limit` real seconds.
        """
        end = time.monotonic() + limit
        with self._changed:
            while True:
                deadlines = [d for _, d in self._waiters.values()]
                if any(
                    d is None if deadline is None else d is not None and abs(d - deadline) < 1e-9 for d in deadlines
                ):
                    return
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"no thread waits for {deadline} after {limit} s, but for {deadlines}")
                self._changed.wait(left)
