"""Reads requests from a connection, within limits, and sends streamed responses."""

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
"""After a refusal, the server still reads and discards the rest of the request: an allowed body and this many more
bytes. If a connection is closed with unread bytes, the kernel sends a TCP reset, and the client may lose the refusal
before it has read it. Go's net/http does the same.
"""

_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[\t -~\x80-\xff]*)?\r\n")
"""A pattern for the line before a chunk: the chunk's size in hexadecimal digits, and extensions, which are ignored. The
only control character that RFC 9112 allows in extensions is the tab. If the server accepted other control
characters, the server and a proxy in front of it could disagree where a request ends (request smuggling).
"""
_MOST_CHUNK_LINE = 256
_MOST_TRAILER = 4096


async def read_head(first: bytes, reader: asyncio.StreamReader) -> Request:
    """Read the first line and the headers of the request that begins with the byte `first`. Return the request.

    The returned request has no body. Raises Refusal if the head is too long or not valid, and an error in ENDED if the
    connection ends.
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
    """Return the body of a request. The body may have at most `most` bytes.

    For a request with `Expect: 100-continue`, first send `100 Continue` with `send`. `received` is called after each
    piece with the number of bytes received so far. Raises Refusal if the body is too long or not valid, and an error in
    ENDED if the connection ends.
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
    """Read `length` bytes, and append them to the body. Raises EOFError if the client closes the connection before."""
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
    """Read all chunks, append them to the body, and discard the trailer (headers) that follows them."""
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
    """Return the next line with its CR LF. Raises Refusal if it has more than `most` bytes, or ends without CR."""
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError:
        line = b""
    if not line or len(line) > most:
        raise malformed("a line between two chunks is too long")
    if not line.endswith(b"\r\n"):
        raise malformed("a line between two chunks does not end with CR LF")
    return line


async def discard(reader: asyncio.StreamReader, most: int, seconds: float) -> None:
    """Read and discard bytes until the client closes the connection or sends nothing for a second.

    Stop after `seconds`, or after `most` bytes plus 256 KiB.
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
    """Send the head and all chunks of a response. An empty chunk also ends the response.

    With HTTP/1.1, the response has `Transfer-Encoding: chunked`, so the client can notice whether it is complete.
    Raises TimeoutError if the client does not read a chunk within `seconds`. Raises the errors of `chunks`. In every
    case, `chunks` is closed. If the client closes the connection, the caller must cancel the task that runs this
    function.
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
    """Wait until all written bytes were sent to the client. Raises TimeoutError after `seconds`.

    The call always gives the event loop a turn (`sleep(0)`). Without this turn, a task whose chunks are always
    available would block the loop. Then the loop would not notice that the connection is lost, and asyncio would log a
    line for each later write.
    """
    await asyncio.sleep(0)
    if writer.transport.get_write_buffer_size() or writer.transport.is_closing():
        async with asyncio.timeout(seconds):
            await writer.drain()
