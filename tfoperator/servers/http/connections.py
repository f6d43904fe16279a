"""The open connections of a server, and the choice of the connection that ends to make room for a new connection.

Use all classes only in the thread of the event loop.
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
    """A connection of a client.

    - `busy` is True while the response is computed, after the request was received.
    - `streaming` is True while the connection sends a StreamedAnswer or has a WebSocket. `HttpServer.stop` first
      waits for the method `HttpServer.end_streams`, and then ends such a connection.
    - `idle_since` is the time since when the server waits for the client.
    - `received` is the number of received bytes of the request's body. It is 0 again when the response is computed.
    - `unsent` is the number of bytes of the response. It is 0 again when the last byte of the response was sent.
    - `handed_over` is True if asyncio has made a transport of the socket. Then asyncio closes the socket.
    - `left` is True if the client has closed the connection, or its own half of the connection.
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
        """Record that the client has closed the connection. End a streamed response, which has no reader any more.

        The response to an ordinary request is still sent: the client may have closed only its own half.
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
        # Only asyncio may close the socket. A transport of TLS can use the socket's number even after `abort`. If this
        # method closed the socket, a new connection could get this number, and would fail.
        with suppress(OSError):
            self.plain.shutdown(socket.SHUT_RDWR)


class Places:
    """The open connections of a server, the oldest first.

    In this class, all connections may stay. A subclass can limit the number of connections: then it ends a connection
    to make room for a new connection.
    """

    def __init__(self) -> None:
        self._all: dict[Connection, None] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._all))

    def add(self, connection: Connection) -> None:
        """Add a connection. The caller calls `forget` when it has ended."""
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
        """Return whether connections of this source have priority over connections of other sources."""
        return True

    def make_room(self, source: str, now: float) -> bool:  # noqa: ARG002 - subclasses look at them
        """Return whether this source may have another connection. The call may end an existing connection for this."""
        return True

    def trust(self, connection: Connection) -> None:
        """Record that `HttpServer.trusts` returned True for a request on this connection."""

    def answered(self, connection: Connection) -> None:
        """Record that the source of this connection has had a successful response (a status below 400)."""

    def bound_unsent(self) -> bool:
        """End connections if too many bytes of responses are unsent. Return whether a connection was ended."""
        return False

    def bound_received(self) -> bool:
        """End a connection if too many bytes of requests were received. Return whether a connection was ended."""
        return False

    def out_of_files(self) -> None:
        """End connections, because the process has no free file descriptor.

        A subclass decides which connections end. In this class, the method does nothing.
        """


class PlacesBySource(Places):
    """A limited number of connections, in total and for each source, for servers that any machine can reach."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits
        self._known_sources: LRUCache[str, None] = LRUCache(_MAX_KNOWN)  # the sources that had a successful response

    def answered(self, connection: Connection) -> None:
        """Record that the source of this connection has had a successful response (a status below 400)."""
        self._known_sources[connection.source] = None

    def knows(self, source: str) -> bool:
        """Return whether this source has had a successful response before."""
        return source in self._known_sources

    def make_room(self, source: str, now: float) -> bool:
        """Return whether this source may have another connection.

        If the source has `Limits.per_source` connections, end the connection of this source that has waited longest for
        its client, if it has waited for a second. In a full server, end the connection that has waited longest for its
        client, of any source: it is idle, its client still sends a request, or its client does not read the response. A
        connection whose response is being computed or streamed is never ended. A client that sends its request at once
        is served before its connection is the oldest (see accepting.py).

        Known sources have had a successful response. While they have at most half of `Limits.connections`, connections
        of unknown sources are ended first. For example, an API server keeps an idle connection to the webhook. If this
        connection were ended, the API server would need a new TLS handshake for the next request.
        """
        own = [connection for connection in self._all if connection.source == source]
        if len(own) >= self._limits.per_source:
            # End only a connection that has waited for a second. Otherwise a source that opens connections all the time
            # would make the server only accept and close connections.
            return self._end_oldest(
                [connection for connection in own if not connection.unsent], now - _FLEETING_SECONDS
            )
        return len(self._all) < self._limits.connections or self._end_oldest(self._all, now)

    def _end_oldest(self, connections: Iterable[Connection], since: float) -> bool:
        """End the connection that has waited longest for its client, if it has waited since the time `since`.

        Connections of unknown sources end first (see `make_room`). Return whether a connection was ended.
        """
        idle = [connection for connection in connections if not connection.busy]
        strangers = [connection for connection in idle if connection.source not in self._known_sources]
        few_known = 2 * (len(idle) - len(strangers)) <= self._limits.connections
        waiting = min(
            strangers if strangers and few_known else idle, key=lambda connection: connection.idle_since, default=None
        )
        if waiting is None or waiting.idle_since > since:
            return False
        self.end(waiting)
        return True

    def bound_unsent(self) -> bool:
        """End connections while the unsent bytes of responses exceed `Limits.unsent`. Return whether any was ended.

        The limit applies to all responses together, and half of it to the responses to a single source. Connections of
        the source with the most unsent bytes are ended first. A single response may be larger than the limit.
        """
        limit, ended = self._limits.unsent, False
        while True:
            unread, held = [connection for connection in self._all if connection.unsent], Counter[str]()
            for connection in unread:
                held[connection.source] += connection.unsent
            greedy = [
                connection for connection in unread if held[connection.source] > max(limit // 2, connection.unsent)
            ]
            if not greedy and (held.total() <= limit or len(unread) == 1):
                return ended
            self.end(min(greedy or unread, key=lambda connection: (-held[connection.source], connection.idle_since)))
            ended = True

    def bound_received(self) -> bool:
        """End a connection that still sends a body, if the received bodies exceed `Limits.received`.

        The limit applies to all bodies together, and half of it to the bodies from a single source. Return whether a
        connection was ended.
        """
        limit, held = self._limits.received, Counter[str]()
        for connection in self._all:
            held[connection.source] += connection.received
        sending = [connection for connection in self._all if not connection.busy]
        greedy = [connection for connection in sending if held[connection.source] > limit // 2]
        if not greedy and held.total() <= limit:
            return False
        self.end(max(greedy or sending, key=lambda connection: (held[connection.source], connection.received)))
        return True
