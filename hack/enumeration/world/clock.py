"""Virtual time for one thread: the world moves it, and threads never wait on it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """A `tfoperator.base.clock.Clock`. A caller that waits on it would wait for ever, and is refused."""

    def __init__(self) -> None:
        self._elapsed = 0.0

    def now(self) -> datetime:
        """The wall clock, which never steps."""
        return START + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Seconds since the beginning of the world."""
        return self._elapsed

    def wait_until(self, condition: threading.Condition, deadline: float | None) -> bool:
        """Refuse to wait, because in a world with one thread, no other thread could end the wait."""
        raise AssertionError(f"a wait until {deadline} on {condition} in a world of one thread")

    def reach(self, moment: float) -> None:
        """Move on to a moment; a moment in the past changes nothing."""
        self._elapsed = max(self._elapsed, moment)
