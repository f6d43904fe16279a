"""TLS for accepted connections, with small buffers.

asyncio gives each TLS connection a buffer of 256 KiB. If the webhook (128 connections) and the progress server (512)
were full of clients that send nothing, these buffers would need 160 MiB. A TLS record has at most 16 KiB, so 32 KiB are
enough. asyncio has no option for the size of the buffer. So the servers use a subclass of asyncio's protocol class, and
other connections of this process are not changed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio.sslproto import SSLProtocol

_BUFFER = 32 << 10


class _SmallBuffers(SSLProtocol):
    """The TLS protocol of asyncio, with less memory for each connection."""

    max_size = _BUFFER


async def accept_tls(
    protocol: asyncio.Protocol,
    connection: socket.socket,
    context: ssl.SSLContext,
    *,
    handshake_seconds: float | None = None,
    shutdown_seconds: float | None = None,
) -> None:
    """Do the TLS handshake on an accepted connection, and pass the TLS transport to `protocol.connection_made`.

    The function works as `loop.connect_accepted_socket` with `ssl`, and has the same default time-outs. Raises OSError
    (SSLError, ConnectionError) if the handshake fails. In this case, the socket is closed.
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
        shaken.cancel()  # otherwise asyncio would log that nobody has read its exception
        if transport is not None:
            transport.abort()
        # The traceback refers to frames, and these frames refer to the error: a reference cycle that contains the
        # connection's buffers. It would stay until a full garbage collection, so thousands of clients could fill the
        # memory. Without the traceback there is no cycle.
        error.with_traceback(None)
        raise
    finally:
        del shaken
