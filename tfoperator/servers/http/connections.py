"""The open connections of a server, and which to close for a new one. Used only in the loop's thread."""

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
        """Close it, unless it ended in an orderly way already."""
        if self.transport is not None:
            self.transport.abort()
        self.plain.close()


class Connections:
    """The open connections, the oldest first."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._all: list[Connection] = []

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._all))

    def add(self, connection: Connection) -> None:
        """Add it, until its end."""
        self._all.append(connection)

    def forget(self, connection: Connection) -> None:
        """Remove a connection that ended. Idempotent."""
        if connection in self._all:
            self._all.remove(connection)

    def end(self, connection: Connection) -> None:
        """End it, even if it is busy."""
        self._all.remove(connection)
        if connection.task is not None:
            connection.task.cancel()

    def make_room(self, source: str, now: float) -> bool:
        """Return whether this source may have one more connection, after ending an idle one if necessary."""
        sources: dict[str, list[Connection]] = {}
        for one in self._all:
            sources.setdefault(one.source, []).append(one)
        own = sources.get(source, [])
        if len(own) >= self._limits.per_source:
            # Not sooner: else the server would only accept and close connections.
            return self._end_one_of(own, now, idle_seconds=_FLEETING_SECONDS)
        if len(self._all) < self._limits.connections:
            return True
        most = max(sources.values(), key=len)
        return len(most) > len(own) + 1 and self._end_one_of(most, now, idle_seconds=0.0)

    def _end_one_of(self, connections: list[Connection], now: float, idle_seconds: float) -> bool:
        """End the longest idle connection, if it was idle for these seconds."""
        idle = min((one for one in connections if not one.busy), key=lambda one: one.idle_since, default=None)
        if idle is None or now - idle.idle_since < idle_seconds:
            return False
        self.end(idle)
        return True

    def bound_received(self) -> bool:
        """End a connection that still sends if all bodies received exceed the limit, or one source's half of it.

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
