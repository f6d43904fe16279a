"""Reads requests from a connection, within limits, and sends responses of unknown length."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing, suppress
from http import HTTPStatus

from tfoperator.servers.http.messages import Refusal, Request, StreamedAnswer, encode_head, malformed, parse_head

ENDED = (OSError, EOFError)
"""The errors of a connection that was ended by its client or by a deadline. (TimeoutError and SSLError are
OSErrors.)
"""

_PIECE = 64 << 10
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 256 << 10
"""If a request is refused, the server reads and discards this many more bytes than an allowed body has. If it closed a
connection with unread bytes, the connection would be reset, and the client might never see the refusal. Go's net/http
does the same.
"""

_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[\t -~\x80-\xff]*)?\r\n")
"""A pattern for the line before a chunk. It has the size of the chunk, and extensions, which have no meaning here. RFC
9112 allows no other control characters in this line. If a server accepted them, it could see other requests in a
connection than a proxy in front of it.
"""
_MOST_CHUNK_LINE = 256
_MOST_TRAILER = 4096


async def read_head(first: bytes, reader: asyncio.StreamReader) -> Request:
    """Return the request that begins with this byte, without its body. The method does not matter.

    Raises Refusal, and the errors of a lost connection.
    """
    try:
        head = first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head", "the request's head is too long") from None
    return parse_head(head)


async def read_body(
    request: Request,
    reader: asyncio.StreamReader,
    *,
    most: int,
    send: Callable[[bytes], object],
    received: Callable[[int], object],
) -> bytes:
    """Return the body of a request. It has at most `most` bytes.

    A client may first wait for permission to send the body. It gets this permission by `send`. `received` is called
    after each piece with the number of bytes received so far. Raises Refusal, and the errors of a lost connection.
    """
    coding = request.headers.get("transfer-encoding")
    if coding is not None and coding.lower() != "chunked":
        raise Refusal(HTTPStatus.NOT_IMPLEMENTED, "coding", "a body must have a Content-Length, or be in plain chunks")
    length = 0 if coding else int(request.headers.get("content-length", "0"))
    _check_length(length, most)
    if not (length or coding):
        return b""
    if request.headers.get("expect", "").lower() == "100-continue":
        send(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = bytearray()
    if length:
        await _read_into(body, length, reader, received)
    else:
        await _read_chunks(body, reader, most, received)
    return bytes(body)


def _check_length(length: int, most: int) -> None:
    if length > most:
        size = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
        raise Refusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", f"the body of a request may have at most {size} here"
        )


async def _read_into(
    body: bytearray, length: int, reader: asyncio.StreamReader, received: Callable[[int], object]
) -> None:
    """Append this number of bytes to the body."""
    whole = len(body) + length
    while len(body) < whole:
        piece = await reader.read(min(whole - len(body), _PIECE))
        if not piece:
            raise EOFError("the client closed the connection in the middle of a request")
        body += piece
        received(len(body))


async def _read_chunks(
    body: bytearray, reader: asyncio.StreamReader, most: int, received: Callable[[int], object]
) -> None:
    """Append all chunks to the body, and discard the trailer that follows them."""
    while True:
        line = _CHUNK_LINE.fullmatch(await _read_line(reader, _MOST_CHUNK_LINE))
        if line is None:
            raise malformed("a chunk does not begin with its size")
        size = int(line[1], 16)
        if not size:
            break
        _check_length(len(body) + size, most)
        await _read_into(body, size, reader, received)
        if await reader.readexactly(2) != b"\r\n":
            raise malformed("a chunk is longer than its size")
    left = _MOST_TRAILER
    while (trailer := await _read_line(reader, left)) != b"\r\n":
        left -= len(trailer)


async def _read_line(reader: asyncio.StreamReader, most: int) -> bytes:
    """Return the next line with its end. It has at most `most` bytes. Raises Refusal."""
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        line = b""
    if not line or len(line) > most:
        raise malformed("a line between two chunks is too long")
    if not line.endswith(b"\r\n"):
        raise malformed("a line between two chunks does not end with CR")
    return line


async def discard(reader: asyncio.StreamReader, most: int, seconds: float) -> None:
    """Read and discard bytes until the client closes the connection or is silent for a second.

    Stop after `seconds`, or after `most` bytes and some more.
    """
    left = most + _LINGER_BYTES
    with suppress(*ENDED):
        async with asyncio.timeout(seconds):
            while left > 0:
                async with asyncio.timeout(_LINGER_SECONDS):
                    piece = await reader.read(_PIECE)
                if not piece:
                    return
                left -= len(piece)


async def send_stream(
    answer: StreamedAnswer,
    request: Request,
    writer: asyncio.StreamWriter,
    *,
    last: bool,
    seconds: float | None,
) -> None:
    """Send all chunks. An empty chunk also ends the response. Cancel the task if the client has left.

    If a client accepts chunks, the response is sent in chunks, so the client can notice whether it is complete. Raises
    TimeoutError if the client does not read a chunk within `seconds`. Raises the errors of `chunks`. In every case,
    `chunks` is closed.
    """
    in_chunks = request.takes_chunks
    async with aclosing(answer.chunks) as chunks:
        writer.write(encode_head(answer, last=last, in_chunks=in_chunks))
        if request.method == "HEAD":
            return
        async for chunk in chunks:
            if not chunk:
                break
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if in_chunks else chunk)
            await drained(writer, seconds)
    if in_chunks:
        writer.write(b"0\r\n\r\n")
    await drained(writer, seconds)


async def drained(writer: asyncio.StreamWriter, seconds: float | None) -> None:
    """Wait until the client has read all that was written. Raises TimeoutError after `seconds`.

    The call always gives the loop a turn. Otherwise, if all requests were received and all chunks are available, the
    loop would never get a turn, and could not notice that the connection is lost. asyncio logs a line for each write
    after the loss.
    """
    await asyncio.sleep(0)
    if writer.transport.get_write_buffer_size() or writer.transport.is_closing():
        async with asyncio.timeout(seconds):
            await writer.drain()
