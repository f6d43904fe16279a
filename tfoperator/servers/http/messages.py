"""HTTP/1.1 requests and responses as values, and their encoding. No I/O."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from http import HTTPStatus

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

MAX_HEAD = 16 << 10
"""Bytes of a request's line and headers; Go's clients send some hundreds."""


class Request(msgspec.Struct, frozen=True):
    """A complete request. `path` is without the query, `query` undecoded, `source` its sender.

    The names of `headers` are in lower case, and values of one name are joined by a comma. `last`: the client sends no
    further request on its connection.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    query: str = ""
    source: str = ""
    last: bool = False


class Answer(msgspec.Struct, frozen=True):
    """A response. `headers` are additional ones; their names and values are the server's, never a client's."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class StreamedAnswer(msgspec.Struct, frozen=True):
    """A response of unknown length. It ends with its connection, and is closed when the client leaves.

    The next chunk is taken from `chunks` when the last one was sent, so a slow client slows it down.
    """

    chunks: AsyncGenerator[bytes, None]
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()


class Refusal(Exception):
    """A refused request: the client gets the message, and the connection ends. `reason` is one word for metrics."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class _Parts:
    """The parts of a head that the parser finds."""

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
    """Return the request without its body. Raises Refusal for an ambiguous one."""
    parts = _Parts()
    parser = HttpRequestParser(parts)
    version = head.partition(b"\r\n")[0][-9:]
    try:
        with suppress(HttpParserUpgrade):  # another protocol is offered: HTTP/1.1 continues
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
    """Return the bytes before the body; `last`: the connection ends after it, as after each streamed response."""
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
