"""The answer to an HTTP/1.1 request, read from a socket in as few pieces as it comes in.

`http.client` reads line by line through three layers of buffers and gives the header block to the parser for e-mail,
which is a third of the CPU that a small POST costs. Here an answer is, nearly always, one `recv` and one split. What is
understood is what API servers and proxies send: a length, chunks, or all until the connection ends. What is wrong
raises what `http.client` raises, so that `wire` translates one set of errors.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Protocol

from tfoperator.kube.errors import AnswerTooLarge
from tfoperator.kube.http.head import Head

MAX_HEAD_BYTES = 1 << 17
"""Of the headers of an answer with all interim answers before it, and of the trailer."""
_READ_SIZE = 1 << 16
_MAX_CHUNK_LINE = 4096
_BEGINNING = b"HTTP/"
_TOO_LONG = "a chunk is longer than it says"
_HEX = frozenset(b"0123456789abcdefABCDEF")


class Source(Protocol):
    """Where the bytes of an answer come from: a socket, mostly."""

    def recv(self, size: int, /) -> bytes:
        """The next bytes, at most `size` of them; b"" at the end."""
        ...


class Chunks:
    """Takes the chunks of a body apart. Pure: bytes in, bytes out, wherever the network has cut them."""

    def __init__(self) -> None:
        self.ended = False
        self._buffer = b""
        self._left = 0  # bytes of the current chunk, with its line end, that are still to come
        self._in_trailer = False
        self._trailer = 0  # bytes

    @property
    def surplus(self) -> bool:
        """Whether something came after the end."""
        return self.ended and bool(self._buffer)

    def feed(self, data: bytes) -> bytes:
        """What `data` adds to the body. Raises HTTPException or ValueError if it is nonsense."""
        buffer = self._buffer + data if self._buffer else data
        size = len(buffer)
        parts: list[bytes] = []
        at = 0
        while at < size and not self.ended:
            if not self._left:
                line_end = buffer.find(b"\r\n", at)
                if line_end < 0:
                    if size - at > _MAX_CHUNK_LINE:
                        raise http.client.LineTooLong("chunk size")
                    break
                self._read_line(buffer[at:line_end])
                at = line_end + 2
                continue
            end = at + self._left
            payload = buffer[at : end - 2] if self._left > 2 else b""
            if payload:
                parts.append(payload)
            if end > size:  # the rest of it comes later
                if end - 2 < size and buffer[size - 1 :] != b"\r":
                    raise http.client.HTTPException(_TOO_LONG)
                self._left, at = end - size, size
                break
            if not buffer.endswith(b"\r\n"[-self._left :], at, end):  # its first byte may have come before
                raise http.client.HTTPException(_TOO_LONG)
            self._left, at = 0, end
        self._buffer = buffer[at:]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_line(self, line: bytes) -> None:
        if self._in_trailer:
            self.ended = not line
            self._trailer += len(line)
            if self._trailer > MAX_HEAD_BYTES:
                raise http.client.LineTooLong("trailer")
            return
        plain = _HEX.issuperset(line)  # most say nothing but the size
        size = line if plain else line.partition(b";")[0].strip()
        if not size or len(size) > 16 or not (plain or _HEX.issuperset(size)):
            raise ValueError(f"{size[:20]!r} is no size of a chunk")
        length = int(size, 16)
        self._in_trailer = length == 0
        self._left = length + 2 if length else 0


class Answer:
    """One answer; `begin()` reads up to the end of its headers. Not thread-safe; does not own the socket.

    Everything that reads raises OSError, `http.client.HTTPException` and ValueError as the connection and the server
    give cause: RemoteDisconnected if it ends before the first byte, IncompleteRead if later.

    The source may raise something else when it has nothing now (BlockingIOError): then the same method is to be called
    again, and goes on where it was.
    """

    status = 0
    will_close = False
    """Whether the connection can't be used for another request."""

    def __init__(self, sock: Source) -> None:
        self.headers: Mapping[str, str] = {}  # names in lower case
        self._framing: Mapping[str, str] = {}  # of them, those that say where the body ends
        self._sock = sock
        self._buffer = b""
        self._left: int | None = None  # bytes of the body to come; None: until the connection ends, or chunks
        self._chunks: Chunks | None = None
        self._head_bytes = 0
        self._parts: list[bytes] = []  # of the body, in `read_all`
        self._size = 0

    def begin(self) -> None:
        """Read status and headers; interim answers (1xx) are skipped."""
        while self.status < 200:
            self._read_head()
        headers = self._framing
        if self.status in (204, 304):
            self._left = 0
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunks = Chunks()
        elif (length := headers.get("content-length")) is not None:
            if not (length.isascii() and length.isdigit()):
                raise ValueError(f"{length[:20]!r} is no length")
            self._left = int(length)
        if self._chunks is None and self._left is None:
            self.will_close = True

    def read(self) -> bytes:
        """The next bytes of the body, waiting for some; b"" at its end."""
        if self._chunks is not None:
            return self._read_chunks(self._chunks)
        data = self._buffer or (b"" if self._left == 0 else self._sock.recv(_READ_SIZE))
        self._buffer = b""
        if self._left is None:
            return data
        if not data and self._left:
            raise http.client.IncompleteRead(b"", self._left)
        if len(data) > self._left:
            # Nobody asked for more: whatever it is, the next answer would begin with it.
            self.will_close = True
            data = data[: self._left]
        self._left -= len(data)
        return data

    def read_all(self, limit: int) -> bytes:
        """The whole body. Raises AnswerTooLarge if it is longer than `limit` bytes."""
        if self._left is not None and self._left > limit:
            raise _too_large(limit)
        while self._size <= limit and (data := self.read()):
            if self._left == 0 and not self._parts:
                return data
            self._parts.append(data)
            self._size += len(data)
        if self._size > limit:
            raise _too_large(limit)
        return b"".join(self._parts)

    def _read_chunks(self, chunks: Chunks) -> bytes:
        while not chunks.ended:
            data = self._buffer or self._sock.recv(_READ_SIZE)
            self._buffer = b""
            if not data:
                raise http.client.IncompleteRead(b"")
            body = chunks.feed(data)
            if body:
                return body
        self.will_close = self.will_close or chunks.surplus
        return b""

    def _read_head(self) -> None:
        looked_at = 0  # so much of the buffer has no end in it
        while (end := self._buffer.find(b"\r\n\r\n", looked_at)) < 0:
            looked_at = max(self._receive() - 3, 0)
        head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
        self._head_bytes += end
        if self._head_bytes > MAX_HEAD_BYTES:
            raise http.client.LineTooLong("headers")
        self._parse_head(head.decode("latin-1"))

    def _receive(self) -> int:
        """More of a head; returns how much of it was there before."""
        before = len(self._buffer)
        if self._head_bytes + before > MAX_HEAD_BYTES:
            raise http.client.LineTooLong("header")
        data = self._sock.recv(_READ_SIZE)
        if not data:
            if before:
                raise http.client.IncompleteRead(self._buffer)
            raise http.client.RemoteDisconnected("the connection ended without an answer")
        self._buffer += data
        if not self._buffer.startswith(_BEGINNING[: len(self._buffer)]):
            raise http.client.BadStatusLine(repr(self._buffer[:40]))
        return before

    def _parse_head(self, text: str) -> None:
        head = Head(text)
        self.status, self.headers, self._framing = head.status, head.headers, head.framing
        connection = head.framing.get("connection", "").lower()
        self.will_close = "close" in connection or (head.is_old and "keep-alive" not in connection)


def _too_large(limit: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"the answer is larger than {limit} bytes, which is the limit")
