"""The listening socket, its certificate, and the limits for connections.

Any user of the machine can connect. A connection counts as unauthenticated until a request with the token has arrived
on it. The number of unauthenticated connections and the time of each are limited, whatever the client sends meanwhile:
nothing, a handshake, or half a request. If there are too many, the server closes the oldest. A client that has the
token normally sends it long before so many other clients connect. Connections with the token are not limited: thousands
of watches are normal.

Client libraries send a bearer token only over TLS, even on loopback. So the server needs a certificate, and each run of
the server makes a new certificate. A kubeconfig contains the CA certificate as `certificate-authority-data`, so users
don't have to change the machine's trust store.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta

from tfoperator.local.runtime.loopback_network import LOOPBACK
from tfoperator.servers.certificates import pem, tls
from tfoperator.servers.http.connections import Connection, Places

MAX_UNAUTHENTICATED = 128
"""The maximum number of unauthenticated connections. More clients than this rarely connect at the same time. These
connections also need far fewer file descriptors than 1024, the limit of most processes.
"""
PATIENCE = 10.0
"""The number of seconds within which a client must send the token."""
_BACKLOG = 1024  # if it is full, a client retries only after a second
_VALIDITY = timedelta(days=365)  # far longer than the life of a process that keeps its state in memory


def make_certificate() -> tuple[bytes, ssl.SSLContext]:
    """Create a certificate for the loopback address and `localhost`.

    Return the CA certificate that clients must trust (PEM), and the server's TLS context.
    """
    # The system's time, and not the server's clock: TLS libraries compare the certificate with the system's time.
    now = datetime.now(UTC)
    authority = pem.make_authority("tfoperator embedded API server", now, _VALIDITY)
    pair = pem.make_certificate(authority, (LOOPBACK, "localhost"), now, _VALIDITY)
    return authority.certificate, tls.server_context(pair)


def listen_on_loopback(port: int) -> socket.socket:
    """Return a TCP socket that listens on loopback.

    Raises OSError, which names the address, if the address is in use.
    """
    try:
        listening = socket.create_server((LOOPBACK, port), backlog=_BACKLOG)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), f"{LOOPBACK}:{port}") from None
    listening.setblocking(False)
    return listening


class TokenPlaces(Places):
    """The open connections.

    The number of unauthenticated connections, and the time of each such connection, are limited. The number of
    authenticated connections is not limited. Use it only in the thread of the event loop.
    """

    def __init__(self, *, max_unauthenticated: int = MAX_UNAUTHENTICATED, patience: float = PATIENCE) -> None:
        """Initialize. `patience` is the time, in seconds, after which an unauthenticated connection is closed."""
        super().__init__()
        self._max_unauthenticated = max_unauthenticated
        self._patience = patience
        self._unauthenticated: dict[Connection, asyncio.TimerHandle] = {}  # the first is the oldest

    def add(self, connection: Connection) -> None:
        """Add a new connection, which is unauthenticated at first. If there are already too many unauthenticated
        connections, end the oldest.
        """
        super().add(connection)
        while len(self._unauthenticated) >= self._max_unauthenticated:
            self.end(next(iter(self._unauthenticated)))
        timer = asyncio.get_running_loop().call_later(self._patience, self.end, connection)
        self._unauthenticated[connection] = timer

    def trust(self, connection: Connection) -> None:
        """Let a connection stay open without a time limit, because its client has sent the token."""
        timer = self._unauthenticated.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def forget(self, connection: Connection) -> None:
        """Remove a connection that ended. Idempotent."""
        super().forget(connection)
        self.trust(connection)

    def out_of_files(self) -> None:
        """End all unauthenticated connections, to free file descriptors."""
        for connection in tuple(self._unauthenticated):
            self.end(connection)
