"""Reads the response to an HTTP/1.1 request from a socket.

Each read takes all bytes that have arrived (at most 64 KiB), and the parser llhttp parses them. llhttp is strict.
llhttp reports an error for a `Content-Length` together with chunks, two `Content-Length` headers, a bare line feed, a
NUL, a space before a colon, and a header value that is continued on the next line. This module limits memory and time.
"""

from __future__ import annotations

import http.client
import io
import math
import re
from collections.abc import Sequence
from typing import Protocol

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from tfoperator.base.clock import Clock
from tfoperator.kube.protocol.errors import UNDECODABLE, AnswerTooLarge, ApiError, Status, error_from_status

MAX_HEAD_BYTES = 1 << 17
"""The limit in bytes of everything except the body. The limit includes interim responses, headers, chunk sizes and a
trailer.
"""
_READ_SIZE = 1 << 16
_WHOLE_ABOVE = 1 << 20
"""If a body has more bytes than this, its pieces are put together as they arrive. Joining them at the end would need
twice the memory.
"""
_VERSIONS = ("1.1", "1.0")
_FRAMING = ("content-length", "transfer-encoding")  # without these headers, a body ends when the connection ends

_WARNING = re.compile(r'\s*\d{3} \S+ "((?:[^"\\]|\\.)*)"')

_decode_status = msgspec.json.Decoder(Status).decode

Fields = Sequence[tuple[bytes, bytes]]
"""Names and values of headers, as received."""


class Source(Protocol):
    """An object that returns the bytes of a response: usually a socket."""

    def recv(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size` bytes; b"" at the end."""
        ...


def header_of(fields: Fields, name: str) -> str:
    """Return the value of the header with this lower-case name.

    Several values are joined with `, `. Return "" if there is no such header.
    """
    wanted = name.encode()
    return b", ".join([value.strip() for field, value in fields if field.lower() == wanted]).decode("latin-1")


class Response(msgspec.Struct, frozen=True):
    """A complete response."""

    status: int
    fields: Fields
    body: bytes

    def header(self, name: str) -> str:
        """Return the value of a header as `header_of` does."""
        return header_of(self.fields, name)

    def warnings(self) -> tuple[str, ...]:
        """Return the texts of the server's warnings. Each header contains one warning: `299 - "text"` (RFC 7234)."""
        given = [value.decode("latin-1") for name, value in self.fields if name.lower() == b"warning"]
        return tuple(re.sub(r"\\(.)", r"\1", match[1]) for text in given if (match := _WARNING.match(text)))


class ResponseReader:
    """Reads one response. `begin()` reads up to the end of the headers, `read` and `read_all` read the body.

    Not thread-safe. The reader does not close the socket. Every read raises the source's errors. A read raises
    ConnectionResetError if the source ends before the first byte, EOFError if the source ends later but before the end
    of the response, HttpParserError for malformed HTTP, and AnswerTooLarge for a body of more than `limit` bytes. A
    read raises TimeoutError if the time `late_at` on the clock has passed, after the first byte but before the end of
    the response.

    `switches` means that the request asks for another protocol: then a 101 status ends the response.

    The source may raise another error (BlockingIOError) when it has no bytes at the moment. Then call the same method
    again later: the method continues where it stopped.
    """

    def __init__(
        self,
        source: Source,
        limit: float = math.inf,
        clock: Clock | None = None,
        late_at: float = math.inf,
        *,
        switches: bool = False,
    ) -> None:
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []
        self.late_at = late_at
        self.received = False
        """Whether at least one byte was received."""
        self.will_close = False
        """Whether the connection can't be used for another request."""
        self.ended = False
        """Whether the response was received completely."""
        self._source = source
        self._limit = limit
        self._switches = switches
        self._clock = clock
        self._parts: list[bytes] = []  # of the body, not returned yet
        self._whole = io.BytesIO()  # the part that `read_all` has put together so far
        self._size = 0  # of the body so far
        self._without_body = 0  # bytes
        self._failure: BaseException | None = None  # raised after the bytes before it were returned
        self._parser = HttpResponseParser(self)  # it refers to this object, so it is dropped at the end

    def begin(self) -> None:
        """Read the status and the headers. Skip interim responses (1xx)."""
        while self.status < 200 and not self.ended:
            self.receive()

    def read(self) -> bytes:
        """Return the next bytes of the body; b"" at the end of the body. Block until bytes arrive."""
        while not self._parts and not self.ended:
            self.receive()
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def read_all(self) -> bytes:
        """Return the whole body."""
        while not self.ended:
            self.receive()
            if self._size > _WHOLE_ABOVE:
                self._whole.writelines(self._parts)
                self._parts.clear()
        return self._whole.getvalue() or b"".join(self._parts)

    def receive(self) -> None:
        """Receive bytes once from the source, and parse them."""
        if self._failure is not None:
            raise self._failure
        if self.received and self._clock is not None and self._clock.monotonic() > self.late_at:
            raise TimeoutError("the answer did not arrive in time")
        data = self._source.recv(_READ_SIZE)
        if data:
            self._take(data)
        elif not self.received:
            raise ConnectionResetError("the connection ended without an answer")
        else:
            self.ended = self.status >= 200 and not any(header_of(self.fields, name) for name in _FRAMING)
            if not self.ended:
                raise EOFError("the connection ended in the middle of an answer")

    def _take(self, data: bytes) -> None:
        size = self._size
        try:
            if not self.received and data[:1] != b"H":
                raise HttpParserError("it begins otherwise")  # llhttp accepts an empty line, and RTSP
            self.received = True
            self._parser.feed_data(data)
            self._without_body = self._without_body + len(data) if self._size == size else 0
            if self._without_body > MAX_HEAD_BYTES:
                raise HttpParserError(f"there are more than {MAX_HEAD_BYTES} bytes of headers or chunk sizes")
        except (HttpParserError, HttpParserUpgrade) as error:
            self.will_close = True
            if not self.ended:
                self._failure = error.__context__ or error  # the context is the error that a callback below raised
        if self.ended or self._failure is not None:
            del self._parser

    # The parser's callbacks.

    def on_message_begin(self) -> None:
        """Raise an error if there are bytes after the end of the response.

        The client did not request these bytes. After the error, it does not use the connection again.
        """
        if self.ended:
            raise HttpParserError("there are bytes after the answer")

    def on_status(self, reason: bytes) -> None:
        """Refuse a NUL in the reason text. In other places llhttp itself refuses a NUL."""
        if b"\0" in reason:
            raise HttpParserError("the status line contains NUL")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store the header. Ignore headers of the trailer."""
        if self.status < 200:
            self.fields.append((name, value))
            if len(name) == 14 and name.lower() == b"content-length":
                self._check(int(value))
            elif len(name) == 17 and header_of(self.fields, "transfer-encoding").lower() not in ("", "chunked"):
                # Only chunks are accepted: with any other encoding, two readers can find two different bodies.
                raise HttpParserError("a transfer encoding other than chunked is not supported")

    def on_headers_complete(self) -> None:
        """Read the status."""
        status = self._parser.get_status_code()
        switched = status == 101 and self._switches
        if status < 100 or (status == 101 and not switched) or self._parser.get_http_version() not in _VERSIONS:
            raise HttpParserError("the answer's status code or HTTP version is not valid for this request")
        self.status, self.ended = status, switched
        self.will_close = not self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        """Add a piece to the body."""
        self._parts.append(data)
        self._size += len(data)
        self._check(self._size)

    def _check(self, size: int) -> None:
        if size > self._limit:
            self._parts.clear()  # the error's traceback keeps this object
            self._whole = io.BytesIO()
            raise AnswerTooLarge(f"the answer is larger than the limit of {self._limit} bytes")

    def on_message_complete(self) -> None:
        """End the response, or an interim response."""
        if self.status >= 200:
            self.ended = True
        elif not self.ended:
            self.fields.clear()


def error_of(answer: Response, what: str) -> ApiError:
    """Convert a response with a status other than 2xx into its error.

    `what` describes the request for the message, for example `create pods ns/name`.
    """
    try:
        status = _decode_status(answer.body)
    except UNDECODABLE:
        # The response is not from the API server: it is a proxy's page, or plain text. Use its first line, if that is
        # text.
        text = ""
        if answer.header("content-type").lower().startswith("text/plain"):
            text = answer.body[:300].decode("utf-8", "replace").strip().partition("\n")[0]
        status = Status(message=text)
    message = status.message or f"{answer.status} {http.client.responses.get(answer.status, '')}".strip()
    status = msgspec.structs.replace(status, code=answer.status, message=message)
    return error_from_status(status, what, _seconds(answer.header("retry-after")))


def _seconds(value: str) -> float | None:
    """Return the value of a `Retry-After` header as a number of seconds. Return None if the value is not such a number.

    HTTP also allows a date, but API servers never send a date.
    """
    try:
        seconds = float(value) if value else -1.0
    except ValueError:
        return None
    return seconds if seconds >= 0 and math.isfinite(seconds) else None
