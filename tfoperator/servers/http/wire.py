"""Reads requests from a connection, within limits, and sends responses of unknown length."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from http import HTTPStatus

import msgspec

from tfoperator.servers.http.messages import Refusal, Request, StreamedAnswer, encode_head, parse_head

ENDED = (OSError, EOFError)
"""The errors of a connection that its client, or a deadline, has ended. (TimeoutError and SSLError are OSErrors.)"""

_CHUNK = 64 << 10
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 256 << 10
"""The bytes of a refused request that are read and discarded: a connection closed with unread bytes is reset, and
the client may never see the refusal. Go's net/http does the same."""


async def read_request(
    first: bytes,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    most: int,
    received: Callable[[int], None],
) -> Request:
    """Return the request that begins with this byte, whatever its method, with its body of at most `most` bytes.

    `received` is called with the bytes of the body so far, at each piece. Raises Refusal, and the errors of a lost
    connection.
    """
    try:
        head = first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head", "the request's head is too long") from None
    request = parse_head(head)
    if "transfer-encoding" in request.headers:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "length", "a body needs a Content-Length")
    length = int(request.headers.get("content-length", "0"))
    if length > most:
        size = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", f"the body of a request may have {size} here")
    if length and request.headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = bytearray()
    while len(body) < length:
        chunk = await reader.read(min(length - len(body), _CHUNK))
        if not chunk:
            raise EOFError("the client left in the middle of a request")
        body += chunk
        received(len(body))
    return msgspec.structs.replace(request, body=bytes(body))


async def discard(reader: asyncio.StreamReader) -> None:
    """Read and discard until the client closes, within limits."""
    left = _LINGER_BYTES
    with suppress(*ENDED):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0 and (chunk := await reader.read(_CHUNK)):
                left -= len(chunk)


async def send_stream(
    answer: StreamedAnswer,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    stall_seconds: float,
    *,
    head_only: bool,
) -> None:
    """Send the chunks until there are no more, or the client has left; an empty chunk also ends it.

    Raises TimeoutError if the client does not read a chunk within `stall_seconds`, and the errors of `chunks`, which
    is closed in every case.
    """
    async with aclosing(answer.chunks) as chunks:
        writer.write(encode_head(answer, last=True))
        if head_only:
            return
        # A waiting client sends nothing more: a read returns only at its end.
        left = asyncio.ensure_future(reader.read(1))
        upcoming: asyncio.Future[bytes] | None = None
        try:
            while True:
                upcoming = asyncio.ensure_future(anext(chunks, b""))
                await asyncio.wait((upcoming, left), return_when=asyncio.FIRST_COMPLETED)
                if left.done() or not upcoming.result():
                    return
                writer.write(upcoming.result())
                async with asyncio.timeout(stall_seconds):
                    await writer.drain()
        finally:
            # Both must end before the generator can be closed; a connection that was reset is an error of the read.
            ending = [one for one in (left, upcoming) if one is not None]
            for one in ending:
                one.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
