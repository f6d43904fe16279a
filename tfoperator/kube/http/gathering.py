"""How long to gather responses before they are read: waking for each costs more than handling it.

The client sends no request while it gathers. A busy server loses nothing by that: its queue holds the requests. A
server with free capacity does. So the gathering time depends on how long requests queue at the server: how much longer
their responses take than the fastest response. A pod that passes admission takes longer than a service even on an idle
server, so each kind has its own fastest time.

Pods and services of 300 replicas, 16 concurrent requests, every response after 5, 30 or 60 ms at any load (a
server with free capacity), medians of three: 0.26, 1.37 and 2.69 s, as with 16 threads (0.26, 1.37, 2.68). If the
gathering time is half of the whole response time, the same takes 0.41, 1.54 and 3.21 s.
"""

from __future__ import annotations

_MIN_UNDER_WAY = 4
"""With fewer outstanding responses they are read one by one: there is little to gather, and a caller waits."""

_WAIT_SHARE = 0.5
"""The gathering time as a share of the time that requests queue at the server, which stays busy meanwhile."""

_MAX_SECONDS = 0.02  # seconds

_AVERAGE_WEIGHT = 0.1
"""The weight of one response in the average."""

_QUICKEST_DECAY = 1e-4
"""The share by which the fastest time moves up to each slower response: without it, a server that has become slower
for good would count as a busy server for ever."""


class Gathering:
    """Measures how long responses take. Not thread-safe."""

    def __init__(self) -> None:
        self._waiting = 0.0  # average seconds that requests queue at the server
        self._quickest: dict[str, float] = {}  # by kind

    def took(self, kind: str, seconds: float) -> None:
        """Record the seconds until the response to a request that writes this kind."""
        quickest = self._quickest.get(kind, seconds)
        waited = seconds - quickest
        self._waiting += (max(waited, 0.0) - self._waiting) * _AVERAGE_WEIGHT
        self._quickest[kind] = quickest + waited * (_QUICKEST_DECAY if waited > 0 else 1.0)

    def seconds(self, under_way: int) -> float:
        """Return the seconds to gather responses, given the number of outstanding responses."""
        return min(self._waiting * _WAIT_SHARE, _MAX_SECONDS) if under_way >= _MIN_UNDER_WAY else 0.0
