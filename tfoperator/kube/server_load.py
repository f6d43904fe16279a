"""How busy the API server is, as this process notices: by how long its own writes take, and by being turned away.

Writes of one kind (`POST pods`, `PATCH tfjobs/status`) are compared with the quickest of their kind, because a pod that
goes through admission takes longer than an event even where nothing else is going on. Reads don't count: how long they
take depends on how much is read. All kinds together make one average. In it a write counts the less the more were made
since, and half as much after `_HALF_LIFE`; it fades away when nothing is written. Nothing known is the same as idle.
"""

from __future__ import annotations

import math
import threading

from tfoperator.clock import Clock, SystemClock
from tfoperator.kube.observer import RequestObserver

_HALF_LIFE = 2.0
"""Seconds. What was longer ago says little of the server as it is now."""

_ENOUGH, _MOST = 2.0, 20.0
"""So many writes make an average, one slow write alone counts half; and of a burst hardly more than these count."""

_FROM, _FULL = 1.0, 9.0
"""By how much slower than the quickest: up to twice as slow is not busy, ten times as slow as busy as it gets."""

_LEAST = 0.005
"""Seconds. Where the quickest took less, its jitter would look like load."""

_BEST_DOUBLES = 3600.0
"""Seconds. The quickest known is forgotten so slowly: a server that has moved farther away is not busy for ever."""

_MAX_DOUBLINGS = 20.0
_MAX_PAUSE = 60.0
"""Seconds that a server may ask for at most to be believed."""


class ServerLoad(RequestObserver):
    """One per client, as its observer. Thread-safe."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards everything below
        self._best: dict[tuple[str, str], tuple[float, float]] = {}  # by method and kind: the quickest, and when
        self._sum = self._weight = 0.0  # of how much slower than the quickest writes were, and of their number
        self._at = self._full_until = self._clock.monotonic()

    def level(self) -> float:
        """From 0, where writes are answered as quickly as ever, to 1: ten times as slowly, or turned away."""
        with self._lock:
            now = self._clock.monotonic()
            if now < self._full_until:
                return 1.0
            self._fade(now)
            slowness = self._sum / max(self._weight, _ENOUGH)
            return min(max((slowness - _FROM) / (_FULL - _FROM), 0.0), 1.0)

    def written(self, method: str, kind: str, seconds: float) -> None:
        """Take a write into account."""
        with self._lock:
            now = self._clock.monotonic()
            best = self._quickest((method, kind), seconds, now)
            self._fade(now)
            self._count(min((seconds - best) / max(best, _LEAST), _FULL))

    def turned_away(self, seconds: float) -> None:
        """Call the server busy until then, and for as long after it as other writes don't say otherwise."""
        with self._lock:
            now = self._clock.monotonic()
            self._full_until = max(self._full_until, now + min(seconds, _MAX_PAUSE))
            self._fade(now)
            self._weight = max(self._weight, _ENOUGH)
            self._sum = _FULL * self._weight

    def _count(self, slowness: float) -> None:
        kept = min(1.0, (_MOST - 1.0) / max(self._weight, 1.0))
        self._sum = self._sum * kept + slowness
        self._weight = self._weight * kept + 1.0

    def _quickest(self, key: tuple[str, str], seconds: float, now: float) -> float:
        best, at = self._best.get(key, (seconds, now))
        doublings = min((now - at) / _BEST_DOUBLES, _MAX_DOUBLINGS)
        best = min(seconds, best * math.exp2(doublings))
        self._best[key] = best, now
        return best

    def _fade(self, now: float) -> None:
        rest = math.exp2((self._at - now) / _HALF_LIFE)
        self._sum *= rest
        self._weight *= rest
        self._at = now
