"""The open connections of a server, and which of them has to go when there is no room. Of the loop's thread only."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator

from tfoperator.servers.http.limits import Limits

_FLEETING_SECONDS = 1.0


class Connection:
    """One connection. While it is `busy` its request is being answered.

    `streaming`: with an answer that has no end, so that stopping does not wait for it.
    """

    def __init__(self, plain: socket.socket, source: str, now: float) -> None:
        self.plain = plain
        self.source = source
        self.busy = False
        self.streaming = False
        self.idle_since = now
        self.received = 0
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.WriteTransport | None = None

    def close(self) -> None:
        """Close it, if its end was not an orderly one already."""
        if self.transport is not None:
            self.transport.abort()
        self.plain.close()


class Connections:
    """The connections that there are, the oldest first."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._all: list[Connection] = []

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._all))

    def add(self, connection: Connection) -> None:
        """Keep it until its end."""
        self._all.append(connection)

    def forget(self, connection: Connection) -> None:
        """It has ended. Idempotent."""
        if connection in self._all:
            self._all.remove(connection)

    def end(self, connection: Connection) -> None:
        """End it, whatever it is doing."""
        self._all.remove(connection)
        if connection.task is not None:
            connection.task.cancel()

    def make_room(self, source: str, now: float) -> bool:
        """Whether there is room for one more of this source, now that an idle one had to go if there was none."""
        sources: dict[str, list[Connection]] = {}
        for one in self._all:
            sources.setdefault(one.source, []).append(one)
        own = sources.get(source, [])
        if len(own) >= self._limits.per_source:
            # Not sooner: to let in and put out as fast as they come would be all that we do.
            return self._end_one_of(own, now, idle_seconds=_FLEETING_SECONDS)
        if len(self._all) < self._limits.connections:
            return True
        most = max(sources.values(), key=len)
        return len(most) > len(own) + 1 and self._end_one_of(most, now, idle_seconds=0.0)

    def _end_one_of(self, connections: list[Connection], now: float, idle_seconds: float) -> bool:
        """End that which has been idle for longest, if there is one that has been for so long."""
        idle = min((one for one in connections if not one.busy), key=lambda one: one.idle_since, default=None)
        if idle is None or now - idle.idle_since < idle_seconds:
            return False
        self.end(idle)
        return True

    def bound_received(self) -> bool:
        """If too much is held for all together, or half of that for one source, end one that still sends more.

        Returns whether one was ended.
        """
        limit, held = self._limits.received, Counter[str]()
        for one in self._all:
            held[one.source] += one.received
        sending = [one for one in self._all if not one.busy]
        greedy = [one for one in sending if held[one.source] > limit // 2]
        if not greedy and held.total() <= limit:
            return False
        self.end(max(greedy or sending, key=lambda one: (held[one.source], one.received)))
        return True
