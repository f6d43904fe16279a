"""WebSockets: messages in both directions, over a connection that began with an HTTP request.

The module is imported only when a WebSocket is opened. The package `websockets` only encodes and decodes the frames:
this module reads and writes the bytes. The server does not offer compression, because a small compressed message could
become a very large message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus

from websockets.datastructures import Headers
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from tfoperator.servers.http.messages import Refusal, Request

_HEADERS = (
    "host", "connection", "upgrade", "sec-websocket-version", "sec-websocket-key", "sec-websocket-protocol",
)  # fmt: skip
_PIECE = 64 << 10
_HEARTBEAT_SECONDS = 30.0
"""Every 30 s, the server sends a ping. If the client has sent nothing, not even a pong, since the last ping, the server
ends the connection.
"""
_GOODBYE_SECONDS = 1.0
_QUIET = logging.Logger("frames of WebSockets", logging.CRITICAL + 1)
"""A logger that drops all lines. The library would log frames and closed connections, and bad clients could fill the
log.
"""


class AcceptedWebSocket:
    """A `WebSocket` on a connection. Call `abandon` when the connection ends. Call all methods in the event loop."""

    def __init__(
        self,
        request: Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        subprotocols: Sequence[str],
        most: int,
    ) -> None:
        """Accept the WebSocket handshake in `request`. A message of the client may have at most `most` bytes.

        Raises Refusal if the request is not a valid handshake.
        """
        self._reader = reader
        self._writer = writer
        own = [Subprotocol(name) for name in subprotocols]
        self._heard = True
        self._message = bytearray()
        self._is_text = False
        self._protocol = ServerProtocol(
            select_subprotocol=lambda _, offered: next((name for name in own if name in offered), None),
            max_size=most,
            logger=_QUIET,
        )
        # The library allows fewer and shorter headers than this server, so it gets only the necessary headers.
        headers = Headers((name, request.headers[name]) for name in _HEADERS if name in request.headers)
        self._protocol.receive_data(Handshake("/", headers).serialize())
        asked = self._protocol.events_received()
        answer = self._protocol.accept(asked[0]) if asked and isinstance(asked[0], Handshake) else None
        is_plain_get = request.method == "GET" and request.takes_chunks and not request.has_body
        if not is_plain_get or answer is None or answer.status_code != 101:
            raise Refusal(HTTPStatus.BAD_REQUEST, "websocket", "this is not a valid WebSocket handshake")
        self._protocol.send_response(answer)
        self._flush()
        self._heartbeat = asyncio.get_running_loop().call_later(_HEARTBEAT_SECONDS, self._beat)

    async def send(self, data: bytes) -> None:
        """Send a binary message, and wait for space in the send buffer.

        Raises ConnectionError if the WebSocket is closed.
        """
        await self._send(self._protocol.send_binary, data)

    async def send_text(self, data: bytes) -> None:
        """Send `data`, a text in UTF-8, as a text message. The call waits and raises errors as `send` does."""
        await self._send(self._protocol.send_text, data)

    async def _send(self, send: Callable[[bytes], None], data: bytes) -> None:
        try:
            send(data)
        except InvalidState:
            self._flush()  # sends the reply to a close message of the client, which may have arrived just now
            raise ConnectionResetError("the WebSocket is closed") from None
        self._flush()
        await self._writer.drain()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            for frame in self._protocol.events_received():
                if isinstance(frame, Frame) and self._take(frame):
                    message, self._message = self._message, bytearray()
                    yield bytes(message)
            self._flush()
            if self._protocol.state is not State.OPEN:
                return
            await self._writer.drain()
            await self._receive()

    async def close(self) -> None:
        """Send a close message, and wait at most a second for the client's close message.

        The call is idempotent. Later calls of `send` raise ConnectionError.
        """
        self._heartbeat.cancel()
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
        self._flush()
        with suppress(OSError, EOFError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                while self._protocol.close_rcvd is None and self._protocol.state is not State.CLOSED:
                    await self._receive()
                    self._protocol.events_received()

    def abandon(self) -> None:
        """Stop the heartbeat (regular ping messages) of a connection that has ended. Idempotent."""
        self._heartbeat.cancel()

    def _take(self, frame: Frame) -> bool:
        """Add the data of a frame to the current message. Return whether the message is complete.

        Ignore a control frame, such as a ping, and return False.
        """
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return False
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        self._message += frame.data
        if frame.fin and self._is_text:
            try:
                self._message.decode()
            except UnicodeDecodeError:
                self._protocol.fail(CloseCode.INVALID_DATA)
                return False
        return frame.fin

    async def _receive(self) -> None:
        data = await self._reader.read(_PIECE)
        self._heard = True
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data and not self._writer.is_closing():
                self._writer.write(data)

    def _beat(self) -> None:
        if not self._heard:
            self._writer.transport.abort()
            return
        self._heard = False
        if self._protocol.state is State.OPEN:
            self._protocol.send_ping(b"")
            self._flush()
        self._heartbeat = asyncio.get_running_loop().call_later(_HEARTBEAT_SECONDS, self._beat)
