"""One request and its response on a non-blocking connection."""

from __future__ import annotations

import select
import ssl
import time

from tfoperator.kube.http.answer import ResponseReader
from tfoperator.kube.http.pool import ClientConnection
from tfoperator.kube.http.wire import set_timeout

TIMEOUTS_IN_ALL = 5
"""The time limit of a whole request, as a multiple of the seconds without data that are allowed. A watch has no limit
once it has started.
"""

_MAX_BYTES = 4 << 20
"""The maximum number of bytes of a response's body. The whole body is kept in memory."""

_MAX_READS = 4
"""The number of reads from a connection before other connections are read. Most responses arrive in one piece."""


class Exchange:
    """Not thread-safe.

    Call `advance()` after you have created the object, and then whenever the connection is ready.
    """

    def __init__(self, connection: ClientConnection, message: bytes, timeout: float, limit: int) -> None:
        """`timeout` is the maximum number of seconds without a byte.

        `limit` is the maximum number of bytes of a body.
        """
        self.connection = connection
        self.unsent = message
        """The part of the request that is not written to the connection yet."""
        self.authorization = ""
        """The credentials that were sent with the request, for the caller that manages them."""
        self.answer = ResponseReader(connection.sock, min(limit, _MAX_BYTES))
        """The part of the response that has arrived."""
        self._timeout = timeout
        self.awaits = select.POLLOUT
        """The event of the connection for which the caller waits before the next `advance()`. Each such event lets
        `advance()` make progress. While a part of the request is not sent, `advance()` waits only for the event that it
        can write, because it would not read a response.
        """
        self.has_more = False
        """Whether to call `advance()` again without waiting: TLS may have buffered more bytes than were read."""
        began = time.monotonic()
        self.late_at = began + timeout
        """A time on the monotonic clock: after it, the time without data or the whole exchange exceeds its limit."""
        self._end_by = began + TIMEOUTS_IN_ALL * timeout
        self.number = connection.sock.fileno()
        """The connection's file descriptor, for polling."""
        set_timeout(connection.sock, 0.0)

    def advance(self) -> bool:
        """Write the bytes that can be written, or else read a part of the response.

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
            # TLS takes 16 kB at a time. When it has no room, the next call must pass the same bytes: it does.
            sent = self.connection.sock.send(self.unsent)
            self.unsent = self.unsent[sent:]
