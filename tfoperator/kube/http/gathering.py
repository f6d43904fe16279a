"""For how long to let answers come together before they are read: being woken for each costs more than what it brings.

Meanwhile nothing new is sent. A busy server loses nothing by that: what it is sent has to wait there. One that has room
does. So what counts is how long requests wait there: by how much their answers take longer than the quickest did. A pod
that goes through admission takes longer than a service even where nothing else is going on: each kind has a quickest.

Pods and services of 300 replicas, 16 requests under way, every answer after 5, 30 or 60 ms however many there are (a
server with room), medians of three: 0.26, 1.37 and 2.69 s, which is what 16 threads take (0.26, 1.37, 2.68). Half of
the whole time of an answer, gathered before, made it 0.41, 1.54 and 3.21.
"""

from __future__ import annotations

_FEW = 4
"""So many answers that are still to come are read one by one: there is little to gather, and somebody waits."""

_SHARE = 0.5
"""Of the time that requests wait at the server: so long answers are gathered, and it has as much to do meanwhile."""

_LONGEST = 0.02  # seconds

_MEMORY = 0.1
"""How much one answer counts in the average."""

_FORGETTING = 1e-4
"""How much of its distance to an answer the quickest loses: a server that has become slower for good is not taken for
a busy one for ever."""


class Gathering:
    """Knows how long answers take. Not thread-safe."""

    def __init__(self) -> None:
        self._waiting = 0.0  # seconds that requests wait at the server, on average
        self._quickest: dict[str, float] = {}  # by kind

    def took(self, kind: str, seconds: float) -> None:
        """A request that writes this kind was answered after so long."""
        quickest = self._quickest.get(kind, seconds)
        waited = seconds - quickest
        self._waiting += (max(waited, 0.0) - self._waiting) * _MEMORY
        self._quickest[kind] = quickest + waited * (_FORGETTING if waited > 0 else 1.0)

    def seconds(self, under_way: int) -> float:
        """For how long to gather answers when so many are to come."""
        return min(self._waiting * _SHARE, _LONGEST) if under_way >= _FEW else 0.0
