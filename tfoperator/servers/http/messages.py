"""HTTP/1.1 requests and responses as values, and functions that encode and decode them. The module does no I/O."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Protocol

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser


class Request(msgspec.Struct, frozen=True):
    """A complete request.

    - `path` does not contain the query.
    - `headers` have names in lower case. If a name occurs several times, its values are joined by commas.
    - `query` is not decoded.
    - `source` identifies the sender (`limits.source_of`).
    - `last` is True if the client sends no more requests on this connection.
    - `takes_chunks` is True for HTTP/1.1, which has chunked bodies, and False for HTTP/1.0.
    - `trusted` is the value that `HttpServer.trusts` returned. If `trusted` is False, the server has not read the
      request's body, and `body` is empty.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    query: str = ""
    source: str = ""
    last: bool = False
    takes_chunks: bool = True
    trusted: bool = True

    @property
    def has_body(self) -> bool:
        """Whether the request's head announces a body."""
        return "transfer-encoding" in self.headers or self.headers.get("content-length", "0").strip("0") != ""


class Answer(msgspec.Struct, frozen=True):
    """A response. `headers` are sent in addition to Server, Content-Type and Content-Length.

    The caller makes sure that `headers` contain no control characters. With `last`, the connection ends after this
    response.
    """

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    last: bool = False


def _nothing() -> None:
    pass


class StreamedAnswer(msgspec.Struct, frozen=True):
    """A response of unknown length. If the client closes the connection, `chunks` is closed.

    The next chunk is taken from `chunks` only when the previous chunk was sent. So a slow client slows down the source
    of the chunks. `over` is called once when the response has ended, even if no chunk was taken. (A `finally` block in
    the generator does not run if the generator was never started.)
    """

    chunks: AsyncGenerator[bytes, None]
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()
    over: Callable[[], object] = _nothing


class WebSocket(Protocol):
    """The server's side of a WebSocket. Only the event loop may use it.

    Iterate over it, only once, to get the client's messages. A text message comes as UTF-8 bytes. The iteration ends
    when the connection ends, and also when the client violates the protocol.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def send(self, data: bytes) -> None:
        """Send a binary message, and wait for space in the send buffer.

        Raises ConnectionError if the WebSocket is closed.
        """

    async def send_text(self, data: bytes) -> None:
        """Send `data`, a text in UTF-8, as a text message. The call waits and raises errors as `send` does."""

    async def close(self) -> None:
        """Send a close message, and wait at most a second for the client's close message.

        The call is idempotent. Later calls of `send` raise ConnectionError.
        """


class WebSocketAnswer(msgspec.Struct, frozen=True):
    """The response to a request that opens a WebSocket.

    When the WebSocket is open, the server calls `talk` with it. When `talk` returns, the server closes the WebSocket.
    `subprotocols` are the names that the server supports for the header Sec-WebSocket-Protocol, in the order of
    preference. `most` is the maximum number of bytes of a message. `over` is called once when the WebSocket has ended,
    even if the server has refused to open it.
    """

    talk: Callable[[WebSocket], Awaitable[None]]
    subprotocols: tuple[str, ...] = ()
    most: int = 1 << 20
    over: Callable[[], object] = _nothing


class Refusal(Exception):
    """A request is refused. The client gets `status` and the message, and the connection ends.

    `reason` is a single word for the metrics.
    """

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class _Parts:
    """Collects the parts of a request's head. The parser calls the methods `on_...`."""

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
    """Decode the first line and the headers of a request. Raises Refusal if they are not valid HTTP/1.0 or HTTP/1.1."""
    parts = _Parts()
    parser = HttpRequestParser(parts)
    version = head.partition(b"\r\n")[0][-9:]
    try:
        with suppress(HttpParserUpgrade):  # the client offers another protocol (`Upgrade`); the server uses HTTP/1.1
            parser.feed_data(head)
    except HttpParserError as error:
        raise malformed(str(error)) from None
    if not parts.complete or version not in (b" HTTP/1.1", b" HTTP/1.0"):
        raise malformed("no such version")
    target, authority = _origin_form(parts.target.decode("latin-1"))
    if authority:
        parts.headers["host"] = authority
    path, _, query = target.partition("?")
    old = version.endswith(b"0")
    if old and "transfer-encoding" in parts.headers:
        raise malformed("HTTP/1.0 does not support transfer encodings")
    last = old or "close" in parts.headers.get("connection", "").lower()
    method = parser.get_method().decode("latin-1")
    return Request(method, path, parts.headers, query=query, last=last, takes_chunks=not old)


_ABSOLUTE_FORM = re.compile("[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)", re.ASCII)


def _origin_form(target: str) -> tuple[str, str]:
    """Return the path with the query, and the authority (`HOST:PORT`), of the target in a request's first line.

    The target is usually a path. Then the authority is "". But a server must also accept a whole URL as the target, and
    use the URL's authority in place of the header `Host` (RFC 9112, 3.2.2).
    """
    whole = _ABSOLUTE_FORM.match(target)
    if whole is None:
        return target, ""
    rest = target[whole.end() :]
    return rest if rest.startswith("/") else f"/{rest}", whole[1]


def malformed(problem: str) -> Refusal:
    """Return a Refusal with the status 400 for a request that is not valid HTTP. The message contains `problem`."""
    return Refusal(HTTPStatus.BAD_REQUEST, "malformed", f"this is not a valid HTTP/1.1 request: {problem}")


def encode_head(answer: Answer | StreamedAnswer, *, last: bool, in_chunks: bool = False) -> bytes:
    """Return the first line and the headers of a response. With `last`, the connection ends after the response.

    A streamed response with `in_chunks` has the header `Transfer-Encoding: chunked`. Without `in_chunks`, the end of
    the connection is the end of the response.
    """
    status, length = HTTPStatus.OK, "Transfer-Encoding: chunked\r\n" if in_chunks else ""
    if isinstance(answer, Answer):
        status, length = answer.status, f"Content-Length: {len(answer.body)}\r\n"
    more = "".join([f"{name}: {value}\r\n" for name, value in answer.headers]) if answer.headers else ""
    end = "Connection: close\r\n\r\n" if last else "\r\n"
    return (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nServer: tfoperator\r\nContent-Type: {answer.content_type}\r\n"
        f"{length}{more}{end}"
    ).encode()
