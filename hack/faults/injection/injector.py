"""Decides which request gets which fault: a function of the seed, the request's kind, and its number among those.

So a seed has the same faults however the operator's threads interleave: the third creation of a pod is the third
creation, whichever thread sends it.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class RequestFault(StrEnum):
    """The faults of a request. `*_AFTER`: the API server has processed it all the same."""

    DELAY = "delay"
    DROP_BEFORE = "drop-before"
    DROP_AFTER = "drop-after"
    TRUNCATE = "truncate"
    CONFLICT = "409"
    GONE = "410"
    TOO_MANY = "429"
    INTERNAL = "500"
    INTERNAL_AFTER = "500-after"
    UNAVAILABLE = "503"
    TIMEOUT_AFTER = "504-after"
    STALE = "stale"


class EventFault(StrEnum):
    """The faults of an event of a watch, or right after it."""

    DELAY = "delay"
    LOSE = "lose"
    TRUNCATE = "truncate"
    CLOSE = "close"
    ABORT = "abort"
    GONE = "410"
    INTERNAL = "500"
    TOO_MANY = "429"
    GARBAGE = "garbage"
    SILENCE = "silence"


REQUEST_FAULTS = tuple(RequestFault)
EVENT_FAULTS = tuple(EventFault)


@dataclass(frozen=True)
class Request:
    """The known facts about a request. `plural` and `name` are "" where the path has none."""

    method: str
    plural: str
    name: str = ""
    subresource: str = ""
    watch: bool = False

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.method == "GET"

    @property
    def kind(self) -> str:
        """Return the sort of the request: requests of one sort are counted together."""
        form = "watch" if self.watch else "one" if self.name else "all"
        return f"{self.method} {self.plural} {self.subresource} {form}"


@dataclass(frozen=True)
class Fault:
    """One fault; `seconds` (real) belongs to delays, silences and Retry-After."""

    kind: str
    seconds: float = 0.0


_FOR_WRITES = {RequestFault.CONFLICT, RequestFault.INTERNAL_AFTER, RequestFault.TIMEOUT_AFTER}
_FOR_LISTS_AND_WATCHES = {RequestFault.GONE, RequestFault.STALE}
_MAX_DELAY = 0.15
_MAX_SILENCE = 1.0


class FaultInjector:
    """Decides on faults until `stop()`. Thread-safe.

    `requests` and `events` map kinds of fault to their probability per request and per event. With `no_watch_list` the
    proxy behaves like a server without WatchList, so that informers have to LIST.
    """

    def __init__(
        self,
        seed: str,
        requests: Mapping[RequestFault, float],
        events: Mapping[EventFault, float],
        *,
        no_watch_list: bool = False,
    ) -> None:
        self._seed = seed
        self._requests = dict(requests)
        self._events = dict(events)
        self._lock = threading.Lock()  # guards what follows
        self._counts: Counter[str] = Counter()
        self._is_stopped = False
        self.no_watch_list = no_watch_list
        self.injected: Counter[str] = Counter()

    def stop(self) -> None:
        """No more faults."""
        with self._lock:
            self._is_stopped = True

    @property
    def is_stopped(self) -> bool:
        """Whether `stop()` was called."""
        return self._is_stopped

    def on_request(self, request: Request) -> Fault | None:
        """Return the fault of this request."""
        rng = self._next(request.kind)
        if rng is None:
            return None
        fault = _choose(rng, self._requests)
        if fault is None or (fault in _FOR_WRITES and request.reads):
            return None
        if fault in _FOR_LISTS_AND_WATCHES and (request.name or not request.reads):
            return None
        return self._note("request", fault, rng)

    def on_event(self, request: Request) -> Fault | None:
        """Return the fault of the next event of this watch."""
        rng = self._next(f"event of {request.kind}")
        fault = None if rng is None else _choose(rng, self._events)
        return None if rng is None or fault is None else self._note("event", fault, rng)

    def _note(self, subject: str, kind: str, rng: random.Random) -> Fault:
        seconds = rng.uniform(0.0, _MAX_DELAY)
        if kind == EventFault.SILENCE:
            seconds = rng.uniform(0.1, _MAX_SILENCE)
        if kind == RequestFault.TOO_MANY:
            seconds = float(rng.choice((0, 1, 1, 2)))
        with self._lock:
            self.injected[f"{subject} {kind}"] += 1
        return Fault(kind, seconds)

    def _next(self, key: str) -> random.Random | None:
        with self._lock:
            if self._is_stopped:
                return None
            self._counts[key] += 1
            return random.Random(f"{self._seed}/{key}/{self._counts[key]}")


def _choose(rng: random.Random, chances: Mapping[RequestFault, float] | Mapping[EventFault, float]) -> str | None:
    point = rng.random()
    for kind, chance in chances.items():
        point -= chance
        if point < 0:
            return kind
    return None
