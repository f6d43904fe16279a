"""One request and its response on a non-blocking connection."""

from __future__ import annotations

import select
import ssl
import time

from tfoperator.kube.http.connections.answer import ResponseReader
from tfoperator.kube.http.connections.pool import ClientConnection
from tfoperator.kube.http.connections.wire import set_timeout

TIMEOUTS_IN_ALL = 5
"""A whole request may take this multiple of its `timeout`, which is the maximum number of seconds without a byte. The
limit does not apply to a watch that has started.
"""

_MAX_BYTES = 4 << 20
"""The maximum number of bytes of a response's body. The whole body is kept in memory."""

_MAX_READS = 4
"""The number of reads from a connection before other connections are read. Most responses arrive in one piece."""


class Exchange:
    """One request and its response on a non-blocking connection. Not thread-safe.

    Call `advance()` after you have created the object, and then each time the connection has the poll event in
    `awaits` (POLLIN or POLLOUT).
    """

    def __init__(self, connection: ClientConnection, message: bytes, timeout: float, limit: int) -> None:
        """`timeout` is the maximum number of seconds without a byte.

        `limit` is the maximum number of bytes of a body.
        """
        self.connection = connection
        self.unsent = message
        """The part of the request that is not written to the connection yet."""
        self.authorization = ""
        """The value of the `Authorization` header of the request. The caller sets it, and needs it if the server
        responds with 401.
        """
        self.answer = ResponseReader(connection.sock, min(limit, _MAX_BYTES))
        """The part of the response that has arrived."""
        self._timeout = timeout
        self.awaits = select.POLLOUT
        """The event (`select.POLLIN` or `select.POLLOUT`) for which the caller polls the connection before the next
        `advance()`. While a part of the request is unsent, this is normally POLLOUT, because `advance()` reads no
        response before the whole request is sent.
        """
        self.has_more = False
        """Whether to call `advance()` again without polling, because TLS may hold received bytes that a poll does not
        show.
        """
        began = time.monotonic()
        self.late_at = began + timeout
        """The time on the monotonic clock at which the exchange has timed out. Each received byte postpones it, but
        never beyond the limit of the whole exchange.
        """
        self._end_by = began + TIMEOUTS_IN_ALL * timeout
        self.number = connection.sock.fileno()
        """The connection's file descriptor, for polling."""
        set_timeout(connection.sock, 0.0)

    def advance(self) -> bool:
        """Write a part of the request, or read a part of the response if the request is written.

        Return whether the response is complete. Raises the errors of connections and responses (`wire.BROKEN`,
        TransportError).
        """
        self.has_more = False
        try:
            if self.unsent:
                self._send()
                self.awaits = select.POLLIN
                return False
            for _ in range(_MAX_READS):
                self.answer.receive()
                if self.answer.ended:
                    return True
                self.late_at = min(time.monotonic() + self._timeout, self._end_by)
        except ssl.SSLWantReadError:
            self.awaits = select.POLLIN
            return False
        except (BlockingIOError, ssl.SSLWantWriteError):
            self.awaits = select.POLLOUT if self.unsent else select.POLLIN
            return False
        self.has_more = True
        return False

    def _send(self) -> None:
        while self.unsent:
            # TLS takes 16 kB at a time. If it has no room, OpenSSL requires that the next call passes the same bytes.
            sent = self.connection.sock.send(self.unsent)
            self.unsent = self.unsent[sent:]
