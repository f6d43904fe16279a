"""Reads requests from a connection, within bounds."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

import msgspec

from tfoperator.servers.http.messages import Refusal, Request, parse_head

ENDED = (OSError, EOFError, ssl.SSLError, http.client.HTTPException)
"""How a connection ends that its client, or a deadline, has ended. (TimeoutError is an OSError.)"""

_CHUNK = 64 << 10
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 256 << 10
"""As much of a refused request is read and thrown away: a connection that is closed with bytes unread is reset, and
the client may never see why it was refused. As Go's net/http does it."""


async def read_request(
    first: bytes,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    most: int,
    received: Callable[[int], None],
) -> Request:
    """The request that begins with this byte. `received` is called with the bytes of its body so far, at each piece.

    Its body has `most` bytes; with 0 no body is read. Raises Refusal, and what a lost connection raises.
    """
    try:
        head = first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head", "the request's head is too long") from None
    request = parse_head(head)
    if not most or request.method in ("GET", "HEAD"):
        return request
    length = _length(request, most)
    if request.headers.get("Expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = bytearray()
    while len(body) < length:
        chunk = await reader.read(min(length - len(body), _CHUNK))
        if not chunk:
            raise EOFError("the client left in the middle of a request")
        body += chunk
        received(len(body))
    return msgspec.structs.replace(request, body=bytes(body))


def _length(request: Request, most: int) -> int:
    """The length of the body. Raises Refusal."""
    lengths = request.headers.get_all("Content-Length", [])
    text = str(lengths[0]) if len(lengths) == 1 else ""
    if not (text.isascii() and text.isdigit()) or "Transfer-Encoding" in request.headers:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "length", "a request needs a Content-Length")
    if len(text) > 12 or int(text) > most:
        size = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", f"a request may have {size}")
    return int(text)


async def discard(reader: asyncio.StreamReader) -> None:
    """Read on until the client closes, within bounds."""
    left = _LINGER_BYTES
    with suppress(*ENDED):
        async with asyncio.timeout(_LINGER_SECONDS):
            while left > 0 and (chunk := await reader.read(_CHUNK)):
                left -= len(chunk)
