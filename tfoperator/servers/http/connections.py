"""The open connections of a server.

Decides which connection to close when a new connection needs its place. Only the thread of the loop uses it.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress

from cachetools import LRUCache

from tfoperator.servers.http.limits import Limits

_FLEETING_SECONDS = 1.0
_MAX_KNOWN = 1024


class Connection:
    """One connection. A connection. It is `busy` while its request is complete and its response is being computed.

    `streaming` is true if it sends a response that has no end. Then stopping the server does not wait for the response.
    `received` is the number of bytes of the request's body, until the response is computed. `unsent` is the number of
    bytes of the response, until its last byte is sent. `handed_over` is true if asyncio has made a transport of the
    socket. Then asyncio closes the socket. `left` is true if the client has closed the connection, or its own half of
    the connection.
    """

    def __init__(self, plain: socket.socket, source: str, now: float) -> None:
        self.plain = plain
        self.source = source
        self.busy = False
        self.streaming = False
        self.idle_since = now
        self.received = 0
        self.unsent = 0
        self.handed_over = False
        self.left = False
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.WriteTransport | None = None

    def left_by_client(self) -> None:
        """End the stream that the connection sends, because its reader is gone.

        Requests that came before are still answered.
        """
        self.left = True
        if self.streaming and self.task is not None:
            self.task.cancel()

    def close(self) -> None:
        """Close the connection, unless it has already ended normally."""
        if self.transport is not None:
            self.transport.abort()
        if not self.handed_over:
            self.plain.close()
            return
        # Only asyncio may close it: a transport of TLS can outlive `abort`, and the next connection with the number of
        # its socket would fail.
        with suppress(OSError):
            self.plain.shutdown(socket.SHUT_RDWR)


class Places:
    """The open connections of a server, the oldest first.

    A subclass decides which connection must end when another connection needs its place. In this class, all connections
    may stay.
    """

    def __init__(self) -> None:
        self._all: dict[Connection, None] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._all))

    def add(self, connection: Connection) -> None:
        """Add a connection. It stays until it ends."""
        self._all[connection] = None

    def forget(self, connection: Connection) -> None:
        """Remove a connection that has ended. Idempotent."""
        self._all.pop(connection, None)

    def end(self, connection: Connection) -> None:
        """End the connection, even if it is busy."""
        self.forget(connection)
        if connection.task is not None:
            connection.task.cancel()

    def knows(self, source: str) -> bool:  # noqa: ARG002 - subclasses look at it
        """Return whether connections of this source are let in before other connections."""
        return True

    def make_room(self, source: str, now: float) -> bool:  # noqa: ARG002 - subclasses look at them
        """Return whether this source may have another connection. The call may end an existing connection for this."""
        return True

    def trust(self, connection: Connection) -> None:
        """Record that the server trusts the sender of a request on this connection."""

    def answered(self, connection: Connection) -> None:
        """Record that this source has requested a page that the server has."""

    def bound_unsent(self) -> bool:
        """End connections that have too many unsent bytes of responses. Return whether it ended a connection."""
        return False

    def bound_received(self) -> bool:
        """End a connection that has too many bytes of requests. Return whether it ended a connection."""
        return False

    def out_of_files(self) -> None:
        """End the connections that may be ended, because the process has no free file descriptor."""


class PlacesBySource(Places):
    """A limited number of connections, in total and for each source. It is for servers that any machine can reach."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits
        self._known: LRUCache[str, None] = LRUCache(_MAX_KNOWN)  # the sources that had an answer

    def answered(self, connection: Connection) -> None:
        """Record that this source has requested a page that the server has."""
        self._known[connection.source] = None

    def knows(self, source: str) -> bool:
        """Return whether this source has had an answer before."""
        return source in self._known

    def make_room(self, source: str, now: float) -> bool:
        """Return whether this source may have another connection.

        For this, it may end a connection that waits for its client. In a full server, a connection keeps its place only
        in two cases: its request is complete and the response is being computed, or it is a stream. All other
        connections may be ended, the oldest first: a connection that is idle, that still sends a request, or whose
        client does not read the response. A client that sends its request at once is served before its connection is
        the oldest, however many other clients connect. While the sources that had an answer have at most half of the
        places, only connections of sources without an answer are ended. The reason is that a handshake takes time, and
        an API server begins a new handshake for each review whose connection was ended.
        """
        own = [one for one in self._all if one.source == source]
        if len(own) >= self._limits.per_source:
            # Not sooner: else the server would only accept and close connections.
            return self._end_oldest([one for one in own if not one.unsent], now - _FLEETING_SECONDS)
        return len(self._all) < self._limits.connections or self._end_oldest(self._all, now)

    def _end_oldest(self, connections: Iterable[Connection], since: float) -> bool:
        """End the connection that has waited longest for its client, if it has waited since the time `since`."""
        idle = [one for one in connections if not one.busy]
        strangers = [one for one in idle if one.source not in self._known]
        few_known = 2 * (len(idle) - len(strangers)) <= self._limits.connections
        waiting = min(strangers if strangers and few_known else idle, key=lambda one: one.idle_since, default=None)
        if waiting is None or waiting.idle_since > since:
            return False
        self.end(waiting)
        return True

    def bound_unsent(self) -> bool:
        """End connections while the unsent responses exceed a limit.

        The limit applies to all responses together, and half of it to the responses to one source. End the connections
        first that have read least. Returns whether it ended a connection. A single response may be larger than the
        limit.
        """
        limit, ended = self._limits.unsent, False
        while True:
            unread, held = [one for one in self._all if one.unsent], Counter[str]()
            for one in unread:
                held[one.source] += one.unsent
            greedy = [one for one in unread if held[one.source] > max(limit // 2, one.unsent)]
            if not greedy and (held.total() <= limit or len(unread) == 1):
                return ended
            self.end(min(greedy or unread, key=lambda one: (-held[one.source], one.idle_since)))
            ended = True

    def bound_received(self) -> bool:
        """End a connection that is still sending, if the received bodies exceed a limit.

        The limit applies to all bodies together, and half of it to the bodies from one source. Returns whether it ended
        a connection.
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
