"""A streaming response on its own connection. Any thread can end the stream at once."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator

from tfoperator.kube.http.connections.answer import ResponseReader
from tfoperator.kube.http.connections.wire import BROKEN, read_error, shut_down

_NOTHING_THERE = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ByteStream:
    """The bytes of one response. One thread reads the stream, any thread may call `close()`. Also a context manager.

    Iteration yields pieces of any size as they arrive. Each piece must arrive within `patience` seconds (None: no
    limit).
    """

    def __init__(self, sock: socket.socket, answer: ResponseReader, host: str) -> None:
        self.status = answer.status
        self.fields = answer.fields
        self.patience: float | None = None
        self._sock = sock
        self._answer = answer
        self._host = host
        self._lock = threading.Lock()  # guards _reading and _closed, which decide which thread closes the socket
        self._reading = False
        self._closed = False
        self._failure: Exception | None = None  # the reader's error after the bytes that it returned

    def __enter__(self) -> ByteStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield pieces until the end or `close()`. Raises the same errors as `read`.

        The stream is closed at the end of the iteration, even if the caller stops early.
        """
        try:
            while data := self.read(self.patience):
                yield data
        finally:
            self.close()

    def closed(self) -> bool:
        """Return whether `close()` was called or the stream has ended."""
        return self._closed

    def read(self, timeout: float | None, gather: int = 0) -> bytes:
        """Return the next bytes; b"" at the end or after `close()`.

        Return the bytes of one read of the socket. If these are fewer than `gather` bytes, repeat the read without
        waiting, until the result has at least `gather` bytes or no more bytes are available. Raises DeadlineExceeded if
        no bytes arrive for `timeout` seconds (None: no limit), and TransportError if the connection breaks before the
        response is complete. Each of these errors closes the stream.
        """
        with self._lock:
            if self._closed:
                return b""
            self._reading = True
        data = b""
        failure: Exception | None = None
        try:
            self._sock.settimeout(timeout)
            data = self._read(gather)
        except BROKEN as error:
            failure = error
        finally:
            with self._lock:
                self._reading = False
                closed_by_other = self.closed()
                self._closed = ended = closed_by_other or not data
            if ended:
                self.release()
        if closed_by_other:
            return b""
        if failure is not None:
            raise read_error(failure, self._host) from failure
        return data

    def _read(self, gather: int) -> bytes:
        if self._failure is not None:
            raise self._failure
        data = self._answer.read()
        if not data or len(data) >= gather:
            return data
        parts, size = [data], len(data)
        self._sock.settimeout(0)
        try:
            while size < gather and (data := self._answer.read()):
                parts.append(data)
                size += len(data)
        except _NOTHING_THERE:
            pass
        except BROKEN as error:
            self._failure = error.with_traceback(None)  # the traceback would keep all bytes read alive
        return b"".join(parts)

    def read_all(self, timeout: float, limit: int) -> bytes:
        """Return the rest of the response, up to `limit` bytes. Use this method for responses that are errors.

        `timeout` limits each read, as in `read`, and not the whole call.
        """
        parts, size = [], 0
        while size < limit and (data := self.read(timeout)):
            parts.append(data)
            size += len(data)
        return b"".join(parts)[:limit]

    def close(self) -> None:
        """End the stream and its connection at once, and wake the thread that reads it.

        Idempotent, thread-safe, doesn't block.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._reading:
                # The reader wakes and closes the socket itself: the descriptor must not be reused while it reads.
                shut_down(self._sock)
                return
        self.release()

    def release(self) -> None:
        """Close this process's copy of the socket, and nothing else.

        After a fork, the parent process still has its copy, so the connection stays open.

        Only the stream's own methods, and a child process after a fork, call this method.
        """
        self._sock.close()
