"""One request and its answer on a connection that nobody waits for: it goes on as far as it can, whenever it can."""

from __future__ import annotations

import select
import ssl
import time

from tfoperator.kube.http.answer import Answer
from tfoperator.kube.http.pool import Connection
from tfoperator.kube.http.wire import set_timeout

TIMEOUTS_IN_ALL = 5
"""A request may take so many times the seconds for which its server may be silent; a watch, once begun, is free."""

_MAX_BYTES = 4 << 20
"""Of an answer's body: all of it is kept."""

_READS = 4
"""So many times a connection is read before others have their turn. Most answers come in one piece."""


class Exchange:
    """Not thread-safe. `advance()` as soon as it is made, and then whenever the connection is ready."""

    def __init__(self, connection: Connection, message: bytes, timeout: float, limit: int) -> None:
        """`timeout` is in seconds without a byte, `limit` in bytes of a body."""
        self.connection = connection
        self.unsent = message
        """What of the request has not been given to the connection yet."""
        self.authorization = ""
        """What credentials it was sent with, for whoever knows of credentials."""
        self.answer = Answer(connection.sock, min(limit, _MAX_BYTES))
        """What has come of it so far."""
        self._timeout = timeout
        self.awaits = select.POLLOUT
        """For what event of the connection to wait before `advance()` is called again. It is never one that changes
        nothing: an answer that comes before the whole request is sent is not looked at."""
        self.has_more = False
        """Whether to call `advance()` again without waiting: TLS may have taken more than was read."""
        began = time.monotonic()
        self.late_at = began + timeout
        """On the monotonic clock: when it has been silent for too long, or has taken too long in all."""
        self._end_by = began + TIMEOUTS_IN_ALL * timeout
        self.number = connection.sock.fileno()
        """Of the connection, for whoever polls."""
        set_timeout(connection.sock, 0.0)

    def advance(self) -> bool:
        """Send what can be sent, or else read some of what has come; whether the answer is complete.

        Raises what connections and answers raise (`wire.BROKEN`, TransportError).
        """
        self.has_more = False
        try:
            if self.unsent:
                self._send()
                self.awaits = select.POLLIN
                return False
            for _ in range(_READS):
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
            # TLS takes 16 kB at a time. When it has no room it wants the same bytes again, which these are.
            sent = self.connection.sock.send(self.unsent)
            self.unsent = self.unsent[sent:]
