"""Virtual time for tests: it moves only when a test moves it."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class FakeClock:
    """A `tfoperator.base.clock.Clock` that stands still until `advance()`.

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
            # The guard only ends a test that would hang for ever; its length does not matter.
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

    def wait_for_waiters(self, count: int = 1, *, timed: bool = True, limit: float = 30.0) -> None:
        """Block (really) until `count` threads rest on this clock; `timed` counts only those with a deadline.

        A thread whose deadline has come, or that was notified, is not at rest: it is about to wake. Raises
        AssertionError after `limit` real seconds.
        """

        def enough(deadlines: list[float | None]) -> bool:
            return sum(1 for deadline in deadlines if deadline is not None or not timed) >= count

        self._wait_for(enough, f"{count} threads do not rest on the clock", limit)

    def pass_time(self, seconds: float, *, waiters: int = 1) -> None:
        """Once `waiters` threads rest until a deadline, advance."""
        self.wait_for_waiters(waiters)
        self.advance(seconds)

    def wait_for_deadline(self, deadline: float | None, *, limit: float = 30.0) -> None:
        """Block (really) until a thread rests until exactly this time on `monotonic()`, or without limit for None.

        Raises AssertionError after `limit` real seconds.
        """

        def contains_deadline(deadlines: list[float | None]) -> bool:
            if deadline is None:
                return None in deadlines
            return any(each is not None and abs(each - deadline) < 1e-9 for each in deadlines)

        self._wait_for(contains_deadline, f"no thread rests until {deadline}", limit)

    def _wait_for(self, enough: Callable[[list[float | None]], bool], complaint: str, limit: float) -> None:
        end = time.monotonic() + limit
        while not enough(deadlines := self.at_rest()):
            if time.monotonic() >= end:
                raise AssertionError(f"{complaint} after {limit} s, but others do until {deadlines}")
            # A thread that goes from "about to wait" to waiting gives no signal, so look again soon.
            with self._changed:
                self._changed.wait(0.001)

    def at_rest(self) -> list[float | None]:
        """The deadlines of all threads that wait, and will until time moves or somebody notifies them."""
        with self._changed:
            waiters = list(self._waiters.values())
            elapsed = self._elapsed
        registered = Counter(id(condition) for condition, _ in waiters)
        return [
            deadline
            for condition, deadline in waiters
            # A condition forgets a waiter when it is notified; it is still registered here until it runs.
            if len(condition._waiters) >= registered[id(condition)] and (deadline is None or deadline > elapsed)
        ]
