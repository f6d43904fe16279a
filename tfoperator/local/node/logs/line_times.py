"""When the lines of a log were written. The files have no times in them, so their growth is watched instead."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from datetime import UTC, datetime

_MOST = 50_000
"""Samples of one log, 16 bytes each, after which every other growth is passed over; after as many again three of four,
and so on: the longer a log grows, the rougher its times are."""


class LineTimes:
    """How large one log was, and when. Thread-safe. What has been said of a line stays so: later samples lie behind it.

    A time is that of the first sample which has seen the line, so it is late by the time between two samples at most.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows
        self._sizes = array("q")
        self._times = array("d")
        self._every = 1
        self._passed = 0

    def note(self, size: int, now: datetime, *, read: bool = False) -> None:
        """At this time the log has so many bytes. `read`: somebody reads them now, so this can't be passed over."""
        with self._lock:
            if size <= (self._sizes[-1] if self._sizes else 0):
                return
            self._passed += 1
            if self._passed < self._every and not read:
                return
            self._passed = 0
            if len(self._sizes) >= _MOST * self._every.bit_length():
                self._every *= 2
            self._sizes.append(size)
            # A clock that is set back does not make a line older than the one before.
            self._times.append(max(now.timestamp(), self._times[-1] if self._times else 0.0))

    def written(self, offset: int) -> datetime:
        """When the line that begins at this byte was written. It has to lie before the last sample."""
        with self._lock:
            index = min(bisect_right(self._sizes, offset), len(self._sizes) - 1)
            return datetime.fromtimestamp(self._times[index] if index >= 0 else 0.0, UTC)

    def offset_at(self, since: datetime) -> int:
        """How many bytes were there before this time: lines that begin behind them were written since."""
        with self._lock:
            index = bisect_left(self._times, since.timestamp())
            return self._sizes[index - 1] if index else 0
