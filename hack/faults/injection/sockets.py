"""Records the sockets of a client session, so that the event loop can wait until all sockets are closed.

If a request is cancelled while it opens a TLS connection, the connection is closed in the background. If the event loop
ends first, the garbage collector closes the socket, and its warning appears in some other test.
"""

from __future__ import annotations

import asyncio
import socket
import weakref
from typing import Any

_CLOSE_SECONDS = 2.0


class Sockets:
    """`make` is a socket factory for `aiohttp.TCPConnector`. For the thread of one event loop."""

    def __init__(self) -> None:
        self._made: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        """A socket for one of `getaddrinfo`'s answers."""
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        self._made.add(made)
        return made

    async def hang_up(self) -> None:
        """End what is still open, and wait until it is closed."""
        for connection in self._open():
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is not connected yet, or no longer
        loop = asyncio.get_running_loop()
        end = loop.time() + _CLOSE_SECONDS
        while self._open() and loop.time() < end:
            await asyncio.sleep(0.005)

    def _open(self) -> list[socket.socket]:
        return [connection for connection in self._made if connection.fileno() >= 0]
