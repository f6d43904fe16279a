"""A clock that runs faster than real time, the same for several processes, whose wall clock can be stepped.

The operator's back-offs, its lease and its double check are minutes long on purpose. A fault plan that waited for them
would take minutes, too; on a clock twenty times as fast it takes seconds, and all options keep their values.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True)
class Origin:
    """The values that clocks of several processes share, so that they show the same time.

    `monotonic` (of this machine, in seconds) is when the wall clock showed `wall` (seconds since the epoch). From then
    on the monotonic clock runs `speed` times, the wall clock `wall_speed` times as fast as real time: beside an API
    server with real timestamps the latter has to be 1.
    """

    monotonic: float
    wall: float
    speed: float
    wall_speed: float

    @classmethod
    def here(cls, speed: float, wall_speed: float) -> Origin:
        """An origin at the real time. The wall clock begins at a whole second, as timestamps know no less."""
        return cls(time.monotonic(), float(int(time.time())), speed, wall_speed)


class ScaledClock:
    """A `tfoperator.base.clock.Clock`. `offset` returns by how many seconds the wall clock has been stepped so far."""

    def __init__(self, origin: Origin, offset: Callable[[], float] = lambda: 0.0) -> None:
        self._origin = origin
        self._offset = offset

    def now(self) -> datetime:
        """The wall clock's time."""
        origin = self._origin
        passed = (time.monotonic() - origin.monotonic) * origin.wall_speed
        return datetime.fromtimestamp(origin.wall, UTC) + timedelta(seconds=passed + self._offset())

    def monotonic(self) -> float:
        """Return seconds, of which `speed` pass in a real second."""
        return time.monotonic() * self._origin.speed

    def wait_until(self, condition: threading.Condition, deadline: float | None) -> bool:
        """See `Clock.wait_until`."""
        if deadline is None:
            condition.wait()
            return True
        left = (deadline - self.monotonic()) / self._origin.speed
        return left > 0 and condition.wait(min(left, threading.TIMEOUT_MAX))
