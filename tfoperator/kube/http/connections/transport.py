"""HTTP/1.1 to one server over persistent connections.

The transport uses only sockets and the parser llhttp: a request needs a tenth of the CPU that the popular HTTP clients
of Python need. A request is sent with one system call. If this call fails, the server can't have received the whole
request, and has not acted on it. A request is sent a second time only after such a failure, or if the request is a GET
and no byte of a response has arrived.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Sequence
from functools import lru_cache

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.config.tls import ClientCertificate
from tfoperator.kube.http.connections.answer import MAX_HEAD_BYTES, Response, ResponseReader
from tfoperator.kube.http.connections.destination import Destination
from tfoperator.kube.http.connections.exchange import TIMEOUTS_IN_ALL, Exchange
from tfoperator.kube.http.connections.pool import ClientConnection, Pool
from tfoperator.kube.http.connections.stream import ByteStream
from tfoperator.kube.http.connections.wire import BROKEN, read_error, set_timeout
from tfoperator.kube.protocol.errors import ClientClosed, TransportError

Headers = Sequence[tuple[str, str]]

MAX_RESPONSE_BYTES = 64 << 20
"""The maximum number of bytes of a response's body. A list of 5000 TFJobs without paging has about 50 MB. An operator
reads up to four lists at the same time, and has a memory limit of 512 MiB.
"""

_CONNECTION_LOST = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class _Lost(Exception):
    """The connection broke before the first byte of a response. `sent` is whether the whole request was sent."""

    def __init__(self, sent: bool) -> None:
        self.sent = sent


_NOT_ASCII = "a header or the request's path contains a line break or a character outside ASCII"


HEADER_SETS = 16
"""The number of different sets of request headers that are kept encoded. There are about ten kinds of requests, and
only a few credentials at a time.
"""


def _header_lines(headers: tuple[tuple[str, str], ...]) -> str:
    lines = ["Accept-Encoding: identity", *(f"{name}: {value}" for name, value in headers), ""]
    text = "\r\n".join(lines)
    if not text.isascii() or text.count("\n") != len(lines) - 1:
        raise ValueError(_NOT_ASCII)
    return text


class _Bytewise:
    """A source that reads one byte at a time, so that it does not read bytes after the headers.

    After a switch to another protocol (`Transport.switch`), the bytes after the headers belong to this protocol.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def recv(self, _: int, /) -> bytes:
        return self._sock.recv(1)


class Transport:
    """Sends requests to one server.

    It is thread-safe, and usable after a fork (the child process opens its own connections). Raises `ConnectionRefused`
    (no process listens), `DeadlineExceeded` (no byte for `timeout` seconds, or no end after `TIMEOUTS_IN_ALL` times
    this number of seconds), `MalformedResponse`, `ClientClosed`, other `TransportError`s (reset, TLS, name resolution),
    and `ConfigError` (a certificate file is unusable). An HTTP status is never an error here.
    """

    def __init__(
        self,
        destination: Destination,
        *,
        timeout: float = 60.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        parallelism: int = 1,
        clock: Clock | None = None,
    ) -> None:
        """`parallelism` is the expected number of concurrent requests.

        The transport keeps up to `parallelism` idle connections, or up to 64 if `parallelism` is less than 64.
        """
        self._clock: Clock = clock or SystemClock()
        self._pool = Pool(destination, timeout, parallelism, self._clock)
        self._timeout = timeout
        self._max_response_bytes = max_response_bytes
        self._header_lines = lru_cache(HEADER_SETS)(_header_lines)  # per transport: it holds credentials
        self.host = destination.host
        self.prefix = destination.prefix

    def request(
        self,
        method: str,
        target: str,
        headers: Headers = (),
        body: bytes | None = None,
        certificate: ClientCertificate | None = None,
    ) -> Response:
        """Send a request and read the whole response.

        On a connection that was idle, the request may be sent a second time, on a new connection: if the request could
        not be sent, or if it is a GET and no byte of a response has arrived. In these cases the server had closed the
        idle connection.
        """
        message = self._render(method, target, headers, body)
        connection = self._pool.take_idle(certificate)
        if connection is not None:
            set_timeout(connection.sock, self._timeout)
            try:
                return self._exchange(connection, message)
            except _Lost as lost:
                if lost.sent and method != "GET":
                    raise self._lost(lost) from lost.__cause__
        try:
            return self._exchange(self._pool.connect(certificate), message)
        except _Lost as lost:
            raise self._lost(lost) from lost.__cause__

    def begin(
        self,
        method: str,
        target: str,
        headers: Headers = (),
        body: bytes | None = None,
        certificate: ClientCertificate | None = None,
    ) -> Exchange | None:
        """Return an exchange on an idle connection that is still valid, without sending the request.

        Return None if there is no such connection. Pass the exchange to `end` or `fail`.
        """
        message = self._render(method, target, headers, body)
        connection = self._pool.take_idle(certificate)
        return connection and Exchange(connection, message, self._timeout, self._max_response_bytes)

    def end(self, exchange: Exchange) -> Response:
        """Return the response of a complete exchange."""
        return self._complete(exchange.connection, exchange.answer, exchange.answer.read_all())

    def fail(self, exchange: Exchange, error: Exception) -> TransportError | None:
        """Return the error of an exchange after its connection broke.

        Return None if the server can't have received the whole request. If the result is None, the caller may send the
        request again, on a connection that is not known to be broken.
        """
        self._pool.discard(exchange.connection.sock)
        if isinstance(error, TransportError):
            return error
        if isinstance(error, _CONNECTION_LOST) and not exchange.answer.received:
            return None if exchange.unsent and not self._pool.closed else self._lost(_Lost(sent=not exchange.unsent))
        return self._broken(error)

    def open_stream(
        self, target: str, headers: Headers = (), certificate: ClientCertificate | None = None
    ) -> ByteStream:
        """Send a GET on its own connection, for a streaming response. Return when the headers have arrived.

        The stream of a 2xx response has no time limit. For any other status, the whole response has the same time limit
        as the response to `request`.
        """
        message = self._render("GET", target, headers, None)
        sock = self._pool.connect(certificate).sock
        try:
            answer = self._send(sock, message)
        except _Lost as lost:
            self._pool.discard(sock)
            raise self._lost(lost) from lost.__cause__
        except BaseException:
            self._pool.discard(sock)
            raise
        if answer.status < 300:
            answer.late_at = math.inf
        stream = ByteStream(sock, answer, self.host)
        self._pool.stream(sock, stream)
        return stream

    def open_socket(self, certificate: ClientCertificate | None = None) -> socket.socket:
        """Return a new connection for another protocol.

        The caller must pass it to `close_socket`; `close()` also ends it.
        """
        return self._pool.connect(certificate).sock

    def switch(self, sock: socket.socket, target: str, headers: Headers, timeout: float) -> ResponseReader:
        """Send a GET on a connection from `open_socket`, to switch the protocol.

        Return the response, which is read up to the end of its headers. The bytes after the headers belong to the new
        protocol and stay unread. `timeout` is the maximum number of seconds without a byte.
        """
        message = self._render("GET", target, headers, None)
        sock.settimeout(timeout)
        try:
            sock.sendall(message)
            answer = ResponseReader(_Bytewise(sock), MAX_HEAD_BYTES, switches=True)
            answer.begin()
        except BROKEN as error:
            raise self._broken(error) from error
        return answer

    def close_socket(self, sock: socket.socket) -> None:
        """Close a connection from `open_socket`. Idempotent."""
        self._pool.discard(sock)

    def close(self) -> None:
        """Close every connection; current requests fail at once with ClientClosed, streams end. Idempotent."""
        self._pool.close()

    def _render(self, method: str, target: str, headers: Headers, body: bytes | None) -> bytes:
        first = f"{method} {self.prefix}{target} HTTP/1.1"
        if not first.isascii() or "\n" in first:
            raise ValueError(_NOT_ASCII)
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{first}\r\nHost: {self.host}\r\n{self._header_lines(tuple(headers))}{length}\r\n"
        return head.encode("ascii") + (body or b"")

    # One request and its response.

    def _exchange(self, connection: ClientConnection, message: bytes) -> Response:
        try:
            answer = self._send(connection.sock, message, self._max_response_bytes)
            body = answer.read_all()
        except BaseException as error:
            self._pool.discard(connection.sock)
            if isinstance(error, BROKEN):
                raise self._broken(error) from error
            raise
        return self._complete(connection, answer, body)

    def _complete(self, connection: ClientConnection, answer: ResponseReader, body: bytes) -> Response:
        if answer.will_close:
            self._pool.discard(connection.sock)
        else:
            self._pool.keep(connection)
        return Response(answer.status, answer.fields, body)

    def _send(self, sock: socket.socket, message: bytes, limit: float = math.inf) -> ResponseReader:
        """Send the request, and read the response up to the end of its headers.

        Raises _Lost if the connection breaks before the first byte of the response, and TransportError for other
        failures. After an error, the caller must close the connection.
        """
        answer = None
        try:
            late_at = self._clock.monotonic() + TIMEOUTS_IN_ALL * self._timeout
            sock.sendall(message)
            answer = ResponseReader(sock, limit, self._clock, late_at)
            answer.begin()
        except BROKEN as error:
            if isinstance(error, _CONNECTION_LOST):
                raise _Lost(sent=answer is not None) from error
            raise self._broken(error) from error
        return answer

    def _lost(self, lost: _Lost) -> TransportError:
        if self._pool.closed:
            return ClientClosed("the client was closed before the answer came")
        return TransportError(
            f"{self.host} closed the connection without an answer"
            if lost.sent
            else f"the connection to {self.host} failed before the request was sent, so the server has not processed it"
        )

    def _broken(self, error: Exception) -> TransportError:
        if self._pool.closed:
            return ClientClosed("the client was closed before the answer came")
        return read_error(error, self.host)
