"""One request and its response on a non-blocking connection."""

from __future__ import annotations

import select
import ssl
import time

from tfoperator.kube.http.answer import ResponseReader
from tfoperator.kube.http.pool import ClientConnection
from tfoperator.kube.http.wire import set_timeout

TIMEOUTS_IN_ALL = 5
"""Limit of a whole request, as a multiple of the seconds its server may be silent; a started watch has no limit."""

_MAX_BYTES = 4 << 20
"""Maximum bytes of a response's body: all of it is kept in memory."""

_MAX_READS = 4
"""Reads per turn of a connection, before others have theirs. Most responses arrive in one piece."""


class Exchange:
    """Not thread-safe. Call `advance()` once it is made, and then whenever the connection is ready."""

    def __init__(self, connection: ClientConnection, message: bytes, timeout: float, limit: int) -> None:
        """`timeout` is in seconds without a byte, `limit` in bytes of a body."""
        self.connection = connection
        self.unsent = message
        """The part of the request that is not written to the connection yet."""
        self.authorization = ""
        """The credentials it was sent with, for the caller that manages them."""
        self.answer = ResponseReader(connection.sock, min(limit, _MAX_BYTES))
        """The response so far."""
        self._timeout = timeout
        self.awaits = select.POLLOUT
        """The event of the connection to wait for before the next `advance()`. Each such event lets `advance()` make
        progress: while a part of the request is unsent, it does not wait for a response, which it would not read."""
        self.has_more = False
        """Whether to call `advance()` again without waiting: TLS may have buffered more than was read."""
        began = time.monotonic()
        self.late_at = began + timeout
        """On the monotonic clock: when the silence, or the whole exchange, exceeds its limit."""
        self._end_by = began + TIMEOUTS_IN_ALL * timeout
        self.number = connection.sock.fileno()
        """The connection's file descriptor, for polling."""
        set_timeout(connection.sock, 0.0)

    def advance(self) -> bool:
        """Write what can be written, or else read some of the response; return whether it is complete.

        Raises the errors of connections and responses (`wire.BROKEN`, TransportError).
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
            # TLS takes 16 kB at a time. When it has no room, the next call must pass the same bytes: it does.
            sent = self.connection.sock.send(self.unsent)
            self.unsent = self.unsent[sent:]
