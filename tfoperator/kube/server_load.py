"""How busy the API server is, as this process notices: by how long its own writes take, and by being turned away.

Writes of one kind (`POST pods`, `PATCH tfjobs/status`) are compared with the quickest of their kind, because a pod that
goes through admission takes longer than an event even where nothing else is going on. Reads don't count: how long they
take depends on how much is read. All kinds together make one average. In it a write counts the less the more were made
since, and half as much after `_HALF_LIFE`; it fades away when nothing is written. Nothing known is the same as idle.

Where several namespaces are written to, that in which writes take longest is left out: an admission webhook of one
namespace may be slow without the server being busy, and jobs elsewhere must not wait for it. A busy server is slow
everywhere.
"""

from __future__ import annotations

import math
import threading

from tfoperator.base.clock import Clock, SystemClock
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

_BRIEF = 0.01
"""Seconds. What is forgotten in a shorter time is forgotten together with the next."""

_NAMESPACES = 32
"""So many are told apart, those written to last: more would say nothing else, and each look at the level costs them."""

_MAX_DOUBLINGS = 20.0
_MAX_PAUSE = 60.0
"""Seconds that a server may ask for at most to be believed."""


class _Average:
    """Of how much slower than the quickest the writes into one namespace were."""

    __slots__ = ("at", "sum", "weight")

    def __init__(self, now: float) -> None:
        self.sum = self.weight = 0.0
        self.at = now

    def fade(self, now: float) -> None:
        if now - self.at < _BRIEF:
            return
        rest = math.exp2((self.at - now) / _HALF_LIFE)
        self.sum *= rest
        self.weight *= rest
        self.at = now

    def count(self, slowness: float) -> None:
        kept = (_MOST - 1.0) / self.weight if self.weight > _MOST - 1.0 else 1.0
        self.sum = self.sum * kept + slowness
        self.weight = self.weight * kept + 1.0


class ServerLoad(RequestObserver):
    """One per client, as its observer. Thread-safe."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards everything below
        self._best: dict[tuple[str, str], tuple[float, float]] = {}  # by method and kind: the quickest, and when
        self._averages: dict[str, _Average] = {}  # by namespace
        self._latest = ""  # that was written to
        self._full_until = self._clock.monotonic()

    def level(self) -> float:
        """From 0, where writes are answered as quickly as ever, to 1: ten times as slowly, or turned away."""
        with self._lock:
            now = self._clock.monotonic()
            if now < self._full_until:
                return 1.0
            slowness = self._slowness(now)
            return min(max((slowness - _FROM) / (_FULL - _FROM), 0.0), 1.0)

    def written(self, method: str, kind: str, namespace: str, seconds: float) -> None:
        """Take a write into account."""
        with self._lock:
            now = self._clock.monotonic()
            best = self._quickest((method, kind), seconds, now)
            average = self._average(namespace, now)
            average.fade(now)
            slowness = (seconds - best) / (best if best > _LEAST else _LEAST)
            average.count(slowness if slowness < _FULL else _FULL)

    def turned_away(self, seconds: float) -> None:
        """Call the server busy until then, and for as long after it as other writes don't say otherwise."""
        with self._lock:
            now = self._clock.monotonic()
            self._full_until = max(self._full_until, now + min(seconds, _MAX_PAUSE))
            for average in self._averages.values() or [self._average("", now)]:
                average.fade(now)
                average.weight = max(average.weight, _ENOUGH)
                average.sum = _FULL * average.weight

    def _slowness(self, now: float) -> float:
        """The average of all namespaces but the slowest, if the others say enough by themselves."""
        total = weight = 0.0
        slowest = _Average(now)
        for average in self._averages.values():
            average.fade(now)
            total += average.sum
            weight += average.weight
            if average.sum - average.weight * _FROM > slowest.sum - slowest.weight * _FROM:
                slowest = average
        if weight - slowest.weight >= _ENOUGH:
            total, weight = total - slowest.sum, weight - slowest.weight
        return total / max(weight, _ENOUGH)

    def _average(self, namespace: str, now: float) -> _Average:
        average = self._averages.get(namespace)
        if average is not None and namespace == self._latest:
            return average
        self._latest = namespace
        if average is None:
            if len(self._averages) >= _NAMESPACES:
                # Those that were written to last say most; dictionaries keep the order in which they came.
                del self._averages[next(iter(self._averages))]
            average = _Average(now)
        else:
            del self._averages[namespace]
        self._averages[namespace] = average
        return average

    def _quickest(self, key: tuple[str, str], seconds: float, now: float) -> float:
        best, at = self._best.get(key, (seconds, -math.inf))
        if now - at < _BRIEF and seconds >= best:
            return best
        doublings = min((now - at) / _BEST_DOUBLES, _MAX_DOUBLINGS)
        best = min(seconds, best * math.exp2(doublings))
        self._best[key] = best, now
        return best
