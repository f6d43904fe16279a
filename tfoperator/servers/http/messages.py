"""Requests and answers as values, and HTTP/1.1's words for them. Pure."""

from __future__ import annotations

import email.message
import http.client
import io
from collections.abc import AsyncGenerator
from http import HTTPStatus

import msgspec

MAX_HEAD = 16 << 10
"""Bytes of a request's line and headers; Go's clients send some hundreds."""


class Request(msgspec.Struct, frozen=True):
    """A request that has come completely. `path` is without the query, `query` as it came, `source` who has sent it."""

    method: str
    path: str
    headers: email.message.Message
    body: bytes = b""
    query: str = ""
    source: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What is sent back. `headers` are further ones; their names and values are ours, never a client's."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class StreamedAnswer(msgspec.Struct, frozen=True):
    """An answer whose end nobody knows yet. It ends with its connection, and is closed when the client leaves.

    `chunks` is asked for the next one when the last has left us, so a slow client slows it down.
    """

    chunks: AsyncGenerator[bytes, None]
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


class Refusal(Exception):
    """A request that is not answered: the client gets the message, and the connection ends. `reason` is one word."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


def parse_head(head: bytes) -> Request:
    """The request without its body. Raises Refusal."""
    line, _, rest = head.partition(b"\r\n")
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refusal(HTTPStatus.BAD_REQUEST, "malformed", "this is no HTTP/1.1 request")
    headers = http.client.parse_headers(io.BytesIO(rest))
    if words[2] == "HTTP/1.0":
        del headers["Connection"]
        headers["Connection"] = "close"
    path, _, query = words[1].partition("?")
    return Request(words[0], path, headers, query=query)


def wants_to_close(request: Request) -> bool:
    """Whether this is the client's last request on its connection."""
    return "close" in request.headers.get("Connection", "").lower()


def encode_head(answer: Answer | StreamedAnswer, *, last: bool) -> bytes:
    """What comes before the answer's body; `last`: the connection ends after it, as with each streamed one."""
    streamed = isinstance(answer, StreamedAnswer)
    status = HTTPStatus.OK if isinstance(answer, StreamedAnswer) else answer.status
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Server: tfoperator",
        f"Content-Type: {answer.content_type}",
        *([] if isinstance(answer, StreamedAnswer) else [f"Content-Length: {len(answer.body)}"]),
        *(f"{name}: {value}" for name, value in answer.headers),
        *(["Connection: close"] if last or streamed else []),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
