"""Remembers the sockets of a client session, so that its event loop can see them closed before it ends.

A TLS connection that a cancelled request was about to make is closed by a farewell that nobody waits for. A loop that
ends first leaves the socket to the garbage collector, whose complaint then comes up in some other test.
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
        for one in self._open():
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is not connected yet, or no longer
        loop = asyncio.get_running_loop()
        end = loop.time() + _CLOSE_SECONDS
        while self._open() and loop.time() < end:
            await asyncio.sleep(0.005)

    def _open(self) -> list[socket.socket]:
        return [one for one in self._made if one.fileno() >= 0]
