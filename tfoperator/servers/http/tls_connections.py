"""TLS for accepted connections, with small buffers.

asyncio gives each TLS connection a buffer of 256 KiB: 160 MiB where both TLS servers of the operator are full of
clients that send nothing. A TLS record has 16 KiB. asyncio has no option for the buffer's size, so these connections
have a protocol of their own; the connections of other code in this process are left as they are.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio.sslproto import SSLProtocol

_BUFFER = 32 << 10


class _SmallBuffers(SSLProtocol):
    """asyncio's TLS, with less memory for each connection."""

    max_size = _BUFFER


async def accept_tls(
    protocol: asyncio.Protocol,
    connection: socket.socket,
    context: ssl.SSLContext,
    *,
    handshake_seconds: float | None = None,
    shutdown_seconds: float | None = None,
) -> None:
    """Shake hands over an accepted connection, and give its transport to `protocol.connection_made`.

    It is `loop.connect_accepted_socket` with `ssl`, and has the same default time-outs. Raises OSError (SSLError,
    ConnectionError) if there is no TLS connection then; the socket is closed.
    """
    loop = asyncio.get_running_loop()
    shaken = loop.create_future()
    secured = _SmallBuffers(
        loop,
        protocol,
        context,
        shaken,
        server_side=True,
        ssl_handshake_timeout=handshake_seconds,  # type: ignore[arg-type]  # asyncio takes any number
        ssl_shutdown_timeout=shutdown_seconds,
    )
    transport: asyncio.Transport | None = None
    try:
        transport, _ = await loop.connect_accepted_socket(lambda: secured, connection)
        await shaken
    except BaseException as error:
        shaken.cancel()  # its error has no reader any more
        if transport is not None:
            transport.abort()
        # Frames of asyncio, and this frame by `shaken`, refer to the error that refers to them. These circles would
        # stay until a full garbage collection, with the connection's buffers: thousands of clients would fill the
        # memory.
        error.with_traceback(None)
        raise
    finally:
        del shaken
