"""The listening socket: which clients may stay connected, and for how long.

Any user of the machine can connect. A connection is unauthenticated until a request with the token has come on it. The
number of these and the time of each are limited, whatever it does meanwhile: nothing, a handshake, or half a
request. When there are too many, the oldest is closed; all have the same address here, so their users can't be
distinguished. One connection is accepted in each round of the event loop, in which the others proceed as well: a client
with the token sends it long before enough others follow.

asyncio ends a TLS connection by a close notification and waits up to half a minute for the client's. A client with an
idle connection in its pool doesn't read, so it never responds. Therefore a stop shuts down open connections.

Client libraries send a bearer token over TLS only, also on loopback, so each run has its own certificate. A kubeconfig
contains its authority as `certificate-authority-data`: the machine's trust store is not changed.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tfoperator.local.runtime.loopback_network import LOOPBACK
from tfoperator.servers.certificates import pem, tls
from tfoperator.servers.http.tls_connections import accept_tls

logger = logging.getLogger(__name__)

MAX_UNAUTHENTICATED = 128
"""More than the clients that connect at once; with their connections, fewer than the 1024 files of most processes."""
PATIENCE = 10.0
"""Seconds for a client to send the token."""
_BACKLOG = 1024  # a client that finds it full retries only after a second
_CLOSE_SECONDS = 0.1  # for a client on the same machine to read its data, and to respond
_HANG_UP_SECONDS = 1.0
_EXHAUSTED_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_BACK_OFF_SECONDS = 0.2  # for files to be closed
_WARNING_SECONDS = 60.0  # between two warnings


_VALIDITY = timedelta(days=365)  # far longer than the life of a process that keeps its state in memory


def make_certificate() -> tuple[bytes, ssl.SSLContext]:
    """Make a certificate for the loopback address and `localhost`; return the authority for clients to trust (PEM), and
    the server's TLS context.
    """
    # The system's time, whatever the server's clock: TLS libraries compare with it.
    now = datetime.now(UTC)
    authority = pem.make_authority("tfoperator embedded API server", now, _VALIDITY)
    pair = pem.make_certificate(authority, (LOOPBACK, "localhost"), now, _VALIDITY)
    return authority.certificate, tls.server_context(pair)


@dataclass(eq=False)
class _Unauthenticated:
    connection: socket.socket
    patience: asyncio.TimerHandle


class ListeningSocket(socket.socket):
    """A TCP socket that listens on loopback. Close it like any socket; the other methods are for its event loop."""

    def __init__(
        self, port: int, *, max_unauthenticated: int = MAX_UNAUTHENTICATED, patience: float = PATIENCE
    ) -> None:
        """Bind and listen; raises OSError, which names the address, if it is in use. `patience` is in seconds."""
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self._accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._max_unauthenticated = max_unauthenticated
        self._patience = patience
        self._unauthenticated: dict[Any, _Unauthenticated] = {}  # by the client's address; the first is the oldest
        self._quiet_until = 0.0
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.setblocking(False)
            self.bind((LOOPBACK, port))
            self.listen(_BACKLOG)
        except OSError as error:
            self.close()
            raise OSError(error.errno, error.strerror, f"{LOOPBACK}:{port}") from None
        except BaseException:
            self.close()
            raise

    async def serve(self, protocols: Callable[[], asyncio.Protocol], context: ssl.SSLContext) -> None:
        """Accept until cancelled. An error of one connection does not delay others."""
        loop = asyncio.get_running_loop()
        handshakes: set[asyncio.Task[None]] = set()
        try:
            while True:
                try:
                    connection, peer = await loop.sock_accept(self)
                except ConnectionAbortedError:
                    continue
                except OSError as error:
                    if error.errno not in _EXHAUSTED_ERRORS:
                        raise
                    await self._back_off(error)
                    continue
                self._accepted.add(connection)
                self._admit(loop, connection, peer)
                task = loop.create_task(_shake_hands(connection, protocols, context))
                handshakes.add(task)
                task.add_done_callback(handshakes.discard)
                await asyncio.sleep(0)  # sock_accept does not wait while clients queue up
        finally:
            for task in handshakes:
                task.cancel()
            await asyncio.gather(*handshakes, return_exceptions=True)
            for client in self._unauthenticated.values():
                client.patience.cancel()

    def trust(self, peer: Any) -> None:
        """Let the client at this address stay: it has sent the token."""
        client = self._unauthenticated.pop(peer, None)
        if client is not None:
            client.patience.cancel()

    async def hang_up(self) -> None:
        """Wait a moment for connections that are being closed, then shut down those that are still open."""
        await self._wait_closed(_CLOSE_SECONDS)
        for connection in self._open():
            _shut(connection)
        await self._wait_closed(_HANG_UP_SECONDS)

    def _admit(self, loop: asyncio.AbstractEventLoop, connection: socket.socket, peer: Any) -> None:
        self.trust(peer)  # an earlier connection from this address has ended, else this one could not exist
        patience = loop.call_later(self._patience, self._send_away, peer)
        self._unauthenticated[peer] = _Unauthenticated(connection, patience)
        if len(self._unauthenticated) > self._max_unauthenticated:
            for ended in [one for one, client in self._unauthenticated.items() if client.connection.fileno() < 0]:
                self.trust(ended)
        while len(self._unauthenticated) > self._max_unauthenticated:
            self._send_away(next(iter(self._unauthenticated)))

    def _send_away(self, peer: Any) -> None:
        _shut(self._unauthenticated[peer].connection)
        self.trust(peer)

    async def _back_off(self, error: OSError) -> None:
        """Close all unauthenticated connections: no file descriptor is free."""
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until:
            self._quiet_until = now + _WARNING_SECONDS
            logger.warning(
                "can't accept a connection: %s; %d unauthenticated clients go",
                error.strerror,
                len(self._unauthenticated),
            )
        for peer in tuple(self._unauthenticated):
            self._send_away(peer)
        await asyncio.sleep(_BACK_OFF_SECONDS)

    def _open(self) -> list[socket.socket]:
        return [connection for connection in self._accepted if connection.fileno() >= 0]

    async def _wait_closed(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._open() and loop.time() < end:
            await asyncio.sleep(0.005)


async def _shake_hands(
    connection: socket.socket,
    protocols: Callable[[], asyncio.Protocol],
    context: ssl.SSLContext,
) -> None:
    try:
        await accept_tls(protocols(), connection, context)
    except OSError as error:  # includes TLS errors
        connection.close()
        logger.debug("a client did not get as far as a request: %s", error)
        # Its traceback refers to it, and to the connection's buffers, which would stay until a full garbage collection:
        # thousands of clients would fill the memory.
        error.with_traceback(None)


def _shut(connection: socket.socket) -> None:
    """Shut down a connection; its server notices, and closes it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the client was faster, or it is closed
