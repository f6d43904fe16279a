"""The listening socket, which remembers its connections so that a stop leaves none behind.

asyncio ends a TLS connection by saying farewell and waiting for the answer, up to half a minute, and offers no way to
cut that short for all connections. A client with an idle connection in its pool doesn't read, so it never answers.
"""

from __future__ import annotations

import asyncio
import socket
import weakref
from typing import Any

__all__ = ["Listener"]

_FAREWELL_SECONDS = 0.1  # for a client on the same machine to read what it was sent, and to answer
_HANG_UP_SECONDS = 1.0


class Listener(socket.socket):
    """A TCP socket that listens. It is closed like any socket; `hang_up` is for the event loop that serves it."""

    def __init__(self, host: str, port: int) -> None:
        """Bind and listen; OSError, which names the address, if it is taken."""
        super().__init__(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        self._accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind((host, port))
            self.listen(128)
        except OSError as error:
            self.close()
            raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
        except BaseException:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept, and remember as long as anybody uses the connection."""
        connection, peer = super().accept()
        self._accepted.add(connection)
        return connection, peer

    async def hang_up(self) -> None:
        """Wait a moment for connections that are being closed, then shut those that are still open."""
        await self._wait_closed(_FAREWELL_SECONDS)
        for connection in self._open():
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the client was faster
        await self._wait_closed(_HANG_UP_SECONDS)

    def _open(self) -> list[socket.socket]:
        return [connection for connection in self._accepted if connection.fileno() >= 0]

    async def _wait_closed(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._open() and loop.time() < end:
            await asyncio.sleep(0.005)
