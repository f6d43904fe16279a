"""Requests and answers as values, and HTTP/1.1's words for them. Pure."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from http import HTTPStatus

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

MAX_HEAD = 16 << 10
"""Bytes of a request's line and headers; Go's clients send some hundreds."""


class Request(msgspec.Struct, frozen=True):
    """A request that has come completely. `path` is without the query, `query` as it came, `source` who has sent it.

    The names of `headers` are in lower case, and values of one name are joined by a comma. `last`: the client sends no
    other one on its connection.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    query: str = ""
    source: str = ""
    last: bool = False


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


class _Parts:
    """What the parser finds in a head."""

    def __init__(self) -> None:
        self.target = b""
        self.headers: dict[str, str] = {}
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        self.complete = True


def parse_head(head: bytes) -> Request:
    """Return the request without its body. Raises Refusal for what can be understood in two ways."""
    parts = _Parts()
    parser = HttpRequestParser(parts)
    version = head.partition(b"\r\n")[0][-9:]
    try:
        with suppress(HttpParserUpgrade):  # another protocol is offered: we go on with this one
            parser.feed_data(head)
    except HttpParserError as error:
        raise _malformed(str(error)) from None
    if not parts.complete or version not in (b" HTTP/1.1", b" HTTP/1.0"):
        raise _malformed("no such version")
    path, _, query = parts.target.decode("latin-1").partition("?")
    last = version.endswith(b"0") or "close" in parts.headers.get("connection", "").lower()
    return Request(parser.get_method().decode("latin-1"), path, parts.headers, query=query, last=last)


def _malformed(problem: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, "malformed", f"this is no HTTP/1.1 request: {problem}")


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
