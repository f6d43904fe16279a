"""One request and its answer on a connection that nobody waits for: it goes on as far as it can, whenever it can."""

from __future__ import annotations

import select
import socket
import ssl
import time

from tfoperator.kube.http.answer import Answer, read_received

_READ_SIZE = 1 << 16
_MAX_BYTES = 4 << 20
"""Of an answer. It is looked at anew with each piece that comes, so what is long has to be read in another way."""


class Exchange:
    """Not thread-safe. `advance()` as soon as it is made, and then whenever the connection is ready."""

    def __init__(
        self, sock: socket.socket, message: bytes, context: ssl.SSLContext | None, timeout: float, limit: int
    ) -> None:
        """`timeout` is in seconds without a byte, `limit` in bytes of a body."""
        self.sock = sock
        self.context = context
        self.unsent = message
        """What of the request has not been given to the connection yet."""
        self.authorization = ""
        """What credentials it was sent with, for whoever knows of credentials."""
        self.answer: Answer | None = None
        self.body = b""
        self._received = b""
        self._timeout = timeout
        self._limit = min(limit, _MAX_BYTES)
        self.awaits = select.POLLOUT
        """For what event of the connection to wait before `advance()` is called again. It is never one that changes
        nothing: an answer that comes before the whole request is sent is not looked at."""
        self.late_at = time.monotonic() + timeout
        """On the monotonic clock: when it has been silent for too long."""
        sock.setblocking(False)

    @property
    def has_received(self) -> bool:
        """Whether a byte of the answer has come."""
        return bool(self._received)

    def advance(self) -> bool:
        """Send what can be sent, or else read what has come; whether the answer is complete.

        Raises what connections and answers raise (`wire.BROKEN`).
        """
        try:
            if self.unsent:
                self._send()
                self.awaits = select.POLLIN
                return False
            while self.answer is None:
                data = self.sock.recv(_READ_SIZE)
                self._received += data
                self.late_at = time.monotonic() + self._timeout
                read = read_received(self._received, self._limit, ended=not data)
                if read is not None:
                    self.answer, self.body = read
        except ssl.SSLWantReadError:
            self.awaits = select.POLLIN
            return False
        except (BlockingIOError, ssl.SSLWantWriteError):
            self.awaits = select.POLLOUT if self.unsent else select.POLLIN
            return False
        return True

    def _send(self) -> None:
        while self.unsent:
            # TLS takes 16 kB at a time. When it has no room it wants the same bytes again, which these are.
            sent = self.sock.send(self.unsent)
            self.unsent = self.unsent[sent:]
