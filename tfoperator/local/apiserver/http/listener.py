"""The listening socket: who may stay connected, and for how long.

Any user of the machine can connect. A connection is unauthenticated while no request with the token has come on it.
There may be so many of these, each for so many seconds, whatever it does meanwhile: nothing, a handshake, or half a
request. When there are too many the one that came first goes; all have the same address here, so there is no telling
whose they are. One connection is accepted in each round of the event loop, in which the others get on as well: whoever
has the token shows it long before enough others have come after it.

asyncio ends a TLS connection by a close notification and waits up to half a minute for the client's. A client with an
idle connection in its pool doesn't read, so it never answers. Therefore a stop shuts what is open still.

Client libraries send a bearer token over TLS only, also on loopback, so each run has a certificate of its own. A
kubeconfig carries its authority as `certificate-authority-data`: nothing on the machine has to trust it.
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

import msgspec

from tfoperator.servers import certificates

logger = logging.getLogger(__name__)

MAX_UNAUTHENTICATED = 128
"""More than clients that begin at once; with the connections of these, fewer than the 1024 files of most processes."""
PATIENCE = 10.0
"""Seconds for a client to show the token."""
_BACKLOG = 1024  # a client that finds it full tries again only after a second
_CLOSE_SECONDS = 0.1  # for a client on the same machine to read what it was sent, and to answer
_HANG_UP_SECONDS = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_BACK_OFF_SECONDS = 0.2  # for files to be closed
_SILENCE_SECONDS = 60.0  # between two complaints


_VALIDITY = timedelta(days=365)  # far beyond the life of a process that keeps all its state in memory


class ServerCertificate(msgspec.Struct, frozen=True):
    """What a server presents (`context`) and the authority that its clients have to trust (`pem`)."""

    pem: bytes
    context: ssl.SSLContext


def make_certificate(address: str) -> ServerCertificate:
    """A fresh certificate for a loopback address and `localhost`."""
    # The system's time, whatever clock the server runs on: it is what TLS libraries compare with.
    now = datetime.now(UTC)
    authority = certificates.make_authority("tfoperator embedded API server", now, _VALIDITY)
    pair = certificates.make_certificate(authority, (address, "localhost"), now, _VALIDITY)
    return ServerCertificate(authority.certificate, certificates.server_context(pair))


@dataclass(eq=False)
class _Unauthenticated:
    connection: socket.socket
    patience: asyncio.TimerHandle


class ListeningSocket(socket.socket):
    """A TCP socket that listens. It is closed like any socket; all else is for the event loop that serves it."""

    def __init__(
        self, host: str, port: int, *, max_unauthenticated: int = MAX_UNAUTHENTICATED, patience: float = PATIENCE
    ) -> None:
        """Bind and listen; OSError, which names the address, if it is taken. `patience` is in seconds."""
        super().__init__(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        self._accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._max_unauthenticated = max_unauthenticated
        self._patience = patience
        self._unauthenticated: dict[Any, _Unauthenticated] = {}  # by the client's address; the first is the oldest
        self._quiet_until = 0.0
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.setblocking(False)
            self.bind((host, port))
            self.listen(_BACKLOG)
        except OSError as error:
            self.close()
            raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
        except BaseException:
            self.close()
            raise

    async def serve(self, protocols: Callable[[], asyncio.Protocol], context: ssl.SSLContext) -> None:
        """Accept until cancelled. What is wrong with one connection does not keep others waiting."""
        loop = asyncio.get_running_loop()
        handshakes: set[asyncio.Task[None]] = set()
        try:
            while True:
                try:
                    connection, peer = await loop.sock_accept(self)
                except ConnectionAbortedError:
                    continue
                except OSError as error:
                    if error.errno not in _EXHAUSTED:
                        raise
                    await self._back_off(error)
                    continue
                self._accepted.add(connection)
                self._admit(loop, connection, peer)
                task = loop.create_task(_shake_hands(loop, connection, protocols, context))
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
        """The client at this address has shown the token: it may stay."""
        client = self._unauthenticated.pop(peer, None)
        if client is not None:
            client.patience.cancel()

    async def hang_up(self) -> None:
        """Wait a moment for connections that are being closed, then shut those that are still open."""
        await self._wait_closed(_CLOSE_SECONDS)
        for connection in self._open():
            _shut(connection)
        await self._wait_closed(_HANG_UP_SECONDS)

    def _admit(self, loop: asyncio.AbstractEventLoop, connection: socket.socket, peer: Any) -> None:
        self.trust(peer)  # an earlier one from there has ended, else there could not be this one
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
        """There is no room for one more file: make some."""
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until:
            self._quiet_until = now + _SILENCE_SECONDS
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
    loop: asyncio.AbstractEventLoop,
    connection: socket.socket,
    protocols: Callable[[], asyncio.Protocol],
    context: ssl.SSLContext,
) -> None:
    try:
        await loop.connect_accepted_socket(protocols, connection, ssl=context)
    except OSError as error:  # those of TLS are, too
        connection.close()
        logger.debug("a client did not get as far as a request: %s", error)
        # Its traceback refers to it, and to the connection's buffers of 256 KiB, which would stay until a full garbage
        # collection: thousands of clients would fill the memory.
        error.with_traceback(None)


def _shut(connection: socket.socket) -> None:
    """End a connection; whoever serves it notices, and closes it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the client was faster, or it is closed
