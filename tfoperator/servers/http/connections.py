"""The open connections of a server, and which to close for a new connection. Used only in the loop's thread."""

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
    """One connection. While it is `busy` its request is complete and its response is being computed.

    `streaming`: with a response that has no end, so that stopping does not wait for it. `received` are the bytes of the
    request's body, until the response is computed, and `unsent` are the bytes of the response, until its last byte is
    sent. `handed_over`: asyncio made a transport of the socket, and closes it. `left`: its client has ended it, or its
    half.
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
        """End the stream that it sends, which has lost its reader. Requests that came before are answered."""
        self.left = True
        if self.streaming and self.task is not None:
            self.task.cancel()

    def close(self) -> None:
        """Close it, unless it ended in an orderly way already."""
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
    """The open connections, the oldest first.

    Subclasses decide which connection has to end for another; here all may stay.
    """

    def __init__(self) -> None:
        self._all: dict[Connection, None] = {}

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._all))

    def add(self, connection: Connection) -> None:
        """Add it, until its end."""
        self._all[connection] = None

    def forget(self, connection: Connection) -> None:
        """Remove a connection that ended. Idempotent."""
        self._all.pop(connection, None)

    def end(self, connection: Connection) -> None:
        """End it, even if it is busy."""
        self.forget(connection)
        if connection.task is not None:
            connection.task.cancel()

    def knows(self, source: str) -> bool:  # noqa: ARG002 - subclasses look at it
        """Return whether this source is let in before others."""
        return True

    def make_room(self, source: str, now: float) -> bool:  # noqa: ARG002 - subclasses look at them
        """Return whether this source may have one more connection, perhaps after ending another."""
        return True

    def trust(self, connection: Connection) -> None:
        """Note that the server trusts the sender of a request on this connection."""

    def answered(self, connection: Connection) -> None:
        """Note that this source has requested a page that is served here."""

    def bound_unsent(self) -> bool:
        """End connections with too many unsent bytes of responses; return whether a connection was ended."""
        return False

    def bound_received(self) -> bool:
        """End a connection with too many bytes of requests; return whether a connection was ended."""
        return False

    def out_of_files(self) -> None:
        """End connections that may be ended, for the process has no free file descriptor."""


class PlacesBySource(Places):
    """A bounded number of connections, in all and per source, for servers that any machine can reach."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits
        self._known: LRUCache[str, None] = LRUCache(_MAX_KNOWN)  # the sources that had an answer

    def answered(self, connection: Connection) -> None:
        """Note that this source has requested a page that is served here."""
        self._known[connection.source] = None

    def knows(self, source: str) -> bool:
        """Return whether this source had an answer."""
        return source in self._known

    def make_room(self, source: str, now: float) -> bool:
        """Return whether this source may have one more connection, after ending a connection that waits for its client.

        Only a complete request whose response is computed, or a stream, holds its place in a full server. A connection
        that rests, that still sends a request, or that does not read its response is ended, the oldest first: a client
        that sends its request at once is served before its connection is the oldest, however many others come. While
        sources that had an answer have half of the places or less, connections of other sources end each other: a
        handshake takes time, and API servers begin one for each review whose connection was ended.
        """
        own = [one for one in self._all if one.source == source]
        if len(own) >= self._limits.per_source:
            # Not sooner: else the server would only accept and close connections.
            return self._end_oldest([one for one in own if not one.unsent], now - _FLEETING_SECONDS)
        return len(self._all) < self._limits.connections or self._end_oldest(self._all, now)

    def _end_oldest(self, connections: Iterable[Connection], since: float) -> bool:
        """End the connection that has waited longest for its client, if it has since then."""
        idle = [one for one in connections if not one.busy]
        strangers = [one for one in idle if one.source not in self._known]
        few_known = 2 * (len(idle) - len(strangers)) <= self._limits.connections
        waiting = min(strangers if strangers and few_known else idle, key=lambda one: one.idle_since, default=None)
        if waiting is None or waiting.idle_since > since:
            return False
        self.end(waiting)
        return True

    def bound_unsent(self) -> bool:
        """End the connections that read least while all unsent responses exceed the limit, or a source's half of it.

        Returns whether one was ended. One response may be larger than that.
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
        """End a connection that still sends if all received bodies exceed the limit, or a source's half of it.

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
