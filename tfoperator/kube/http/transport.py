"""HTTP/1.1 to one server over persistent connections: one interface, so that what is behind it can be changed.

Sockets and `answer` alone: a request costs a tenth of the CPU of the popular clients. It is sent with one call:
if that call fails, the server can't have seen the whole request, and so has not acted on it. That, and reads that
ask for nothing but an answer, are the only cases in which a request is sent twice.
"""

from __future__ import annotations

import copy
import os
import socket
import ssl
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.config.tls import ClientCertificate, TlsContexts, TlsOptions
from tfoperator.kube.errors import ClientClosed, TransportError
from tfoperator.kube.http.answer import Answer
from tfoperator.kube.http.exchange import Exchange
from tfoperator.kube.http.proxy import choose_proxy
from tfoperator.kube.http.stream import ByteStream
from tfoperator.kube.http.wire import (
    BROKEN,
    await_connection,
    connect_error,
    keep_alive,
    read_error,
    readable,
    set_timeout,
    shut_down,
)

Headers = Sequence[tuple[str, str]]

CONNECT_TIMEOUT = 10.0
MAX_IDLE_SECONDS = 45.0
"""Load balancers drop idle connections after a minute or more, the embedded server after 75 s: we are earlier."""
MAX_IDLE_CONNECTIONS = 64
"""Unless more requests are expected to be under way at a time (`Transport.expect`)."""
MAX_RESPONSE_BYTES = 256 << 20
"""An unpaged list of 10,000 TFJobs is about 100 MB."""

_CLOSED = "the client is closed"
_CUT_OFF = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class Response(msgspec.Struct, frozen=True):
    """A complete answer. The names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Idle(NamedTuple):
    """A connection that waits to be used again, since when, and the context it was made with."""

    sock: socket.socket
    since: float
    context: ssl.SSLContext | None


class _Lost(Exception):
    """The connection broke before any byte of an answer; `sent` tells whether the whole request had been sent."""

    def __init__(self, sent: bool) -> None:
        self.sent = sent


_NOT_ASCII = "a header or target holds a line break or a character outside ASCII"


HEADER_SETS = 16
"""Requests of one kind have the same headers; there are some ten kinds, and few credentials at a time."""


def _header_lines(headers: tuple[tuple[str, str], ...]) -> str:
    lines = ["Accept-Encoding: identity", *(f"{name}: {value}" for name, value in headers), ""]
    text = "\r\n".join(lines)
    if not text.isascii() or text.count("\n") != len(lines) - 1:
        raise ValueError(_NOT_ASCII)
    return text


class Transport:
    """A pool of connections to one server. Thread-safe; usable after a fork (the child makes its own connections).

    Raises `ConnectionRefused` (nobody listens), `DeadlineExceeded` (no byte for `timeout` seconds),
    `MalformedResponse`, `ClientClosed`, other `TransportError`s (reset, TLS, name resolution), `ConfigError` (a
    certificate file is unusable). An HTTP status is never an error here.
    """

    def __init__(
        self,
        server: str,
        tls: TlsOptions | None = None,
        *,
        proxy_url: str = "",
        timeout: float = 60.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        clock: Clock | None = None,
    ) -> None:
        url = urlsplit(server)
        self._clock: Clock = clock or SystemClock()
        self._tls = TlsContexts(tls or TlsOptions(), clock=self._clock) if url.scheme == "https" else None
        self._address = (url.hostname or "", url.port or (443 if self._tls else 80))
        self._server_name = (tls.server_name if tls else "") or self._address[0]
        self._prefix = url.path.rstrip("/")
        self._proxy = choose_proxy(proxy_url, url.scheme, *self._address)
        self._timeout = timeout
        self._max_response_bytes = max_response_bytes
        self._max_idle = MAX_IDLE_CONNECTIONS
        self._header_lines = lru_cache(HEADER_SETS)(_header_lines)  # of this transport: credentials go with it
        self.host = url.netloc
        self._begin()

    def sibling(self) -> Transport:
        """Another pool to the same server, to be closed by itself."""
        other = copy.copy(self)
        other._begin()
        return other

    def _begin(self) -> None:
        self._closed = False
        self._reset()
        _transports.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()  # guards _closed and what follows
        self._idle: list[_Idle] = []  # the last one is used first
        self._busy: set[socket.socket] = set()
        self._streams: weakref.WeakSet[ByteStream] = weakref.WeakSet()

    def after_fork(self) -> None:
        """Forget the parent's connections, in the child. Closing its copies does not disturb the parent."""
        inherited, streams = [idle.sock for idle in self._idle] + list(self._busy), list(self._streams)
        self._reset()
        for sock in inherited:
            sock.close()
        for stream in streams:
            stream.release()

    def request(
        self,
        method: str,
        target: str,
        headers: Headers = (),
        body: bytes | None = None,
        certificate: ClientCertificate | None = None,
    ) -> Response:
        """Send a request and read the whole answer.

        On a connection that was idle it is sent once more, on a new one, if sending failed or if it is a GET that
        got no byte of an answer: the server had closed the connection in between.
        """
        message = self._render(method, target, headers, body)
        # Who we are is settled when a connection is made, so old ones go, within a second, when it changes.
        context = self._tls.recent_context(certificate) if self._tls else None
        sock = self._take_idle(context)
        if sock is not None:
            set_timeout(sock, self._timeout)
            try:
                return self._exchange(sock, context, message)
            except _Lost as lost:
                if lost.sent and method != "GET":
                    raise self._lost(lost) from lost.__cause__
        context = self._tls.context(certificate) if self._tls else None
        try:
            return self._exchange(self._connect(context), context, message)
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
        """A request, of which nothing is sent yet, on an idle connection that is still good; None if there is none.

        To be given to `end`, or to `fail`.
        """
        message = self._render(method, target, headers, body)
        context = self._tls.recent_context(certificate) if self._tls else None
        sock = self._take_idle(context)
        if sock is None:
            return None
        return Exchange(sock, message, context, self._timeout, self._max_response_bytes)

    def expect(self, parallelism: int) -> None:
        """Keep at least so many connections while they are idle: so many requests will be under way at a time."""
        self._max_idle = max(self._max_idle, parallelism)

    def end(self, exchange: Exchange) -> Response:
        """The answer of an exchange that is complete."""
        answer = exchange.answer
        if answer.will_close:
            self._discard(exchange.sock)
        else:
            self._keep(exchange.sock, exchange.context)
        return Response(answer.status, answer.headers, exchange.body)

    def fail(self, exchange: Exchange, error: Exception) -> TransportError | None:
        """What has become of an exchange that broke off with this error; None if the server can't have seen all of it.

        Then it may be sent again, on a connection that is not known to be bad.
        """
        self._discard(exchange.sock)
        if isinstance(error, TransportError):
            return error
        if isinstance(error, _CUT_OFF) and not exchange.has_received:
            return None if exchange.unsent and not self._closed else self._lost(_Lost(sent=not exchange.unsent))
        return self._broken(error)

    def open_stream(
        self, target: str, headers: Headers = (), certificate: ClientCertificate | None = None
    ) -> ByteStream:
        """GET on a connection of its own, for an answer that goes on: returns when its headers are there."""
        message = self._render("GET", target, headers, None)
        sock = self._connect(self._tls.context(certificate) if self._tls else None)
        try:
            response = self._send(sock, message)
        except _Lost as lost:
            self._discard(sock)
            raise self._lost(lost) from lost.__cause__
        except BaseException:
            self._discard(sock)
            raise
        stream = ByteStream(sock, response, self.host)
        with self._lock:
            self._busy.discard(sock)
            self._streams.add(stream)
            closed = self._closed
        if closed:
            stream.close()
        return stream

    def open_socket(self, certificate: ClientCertificate | None = None) -> socket.socket:
        """A connection of its own, for another protocol, to be given to `close_socket`; `close()` ends it, too."""
        return self._connect(self._tls.context(certificate) if self._tls else None)

    def close_socket(self, sock: socket.socket) -> None:
        """A connection of `open_socket` is needed no more. Idempotent."""
        self._discard(sock)

    @property
    def prefix(self) -> str:
        """What the server's URL has before every path, without a slash at its end."""
        return self._prefix

    def close(self) -> None:
        """Close every connection; requests under way fail at once with ClientClosed, streams end. Idempotent."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            streams = list(self._streams)
            # Under the lock, so that none of them has been closed and its number used anew.
            for sock in self._busy:
                shut_down(sock)
        for one in idle:
            one.sock.close()
        for stream in streams:
            stream.close()

    def _render(self, method: str, target: str, headers: Headers, body: bytes | None) -> bytes:
        first = f"{method} {self._prefix}{target} HTTP/1.1"
        if not first.isascii() or "\n" in first:
            raise ValueError(_NOT_ASCII)
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{first}\r\nHost: {self.host}\r\n{self._header_lines(tuple(headers))}{length}\r\n"
        return head.encode("ascii") + (body or b"")

    # Connections.

    def _take_idle(self, context: ssl.SSLContext | None) -> socket.socket | None:
        """An idle connection that is still good, from now on busy."""
        stale, found = [], None
        oldest = self._clock.monotonic() - MAX_IDLE_SECONDS
        with self._lock:
            if self._closed:
                raise ClientClosed(_CLOSED)
            while self._idle and found is None:
                idle = self._idle.pop()
                if idle.since >= oldest and idle.context is context and not readable(idle.sock):
                    found = idle.sock
                    self._busy.add(found)
                else:
                    stale.append(idle.sock)
        for sock in stale:
            sock.close()
        return found

    def _keep(self, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        with self._lock:
            self._busy.discard(sock)
            if not self._closed and len(self._idle) < self._max_idle:
                self._idle.append(_Idle(sock, self._clock.monotonic(), context))
                return
        sock.close()

    def _discard(self, sock: socket.socket) -> None:
        with self._lock:
            self._busy.discard(sock)
        sock.close()

    def _connect(self, context: ssl.SSLContext | None) -> socket.socket:
        """A new connection, busy from its first packet on, so that `close()` need not wait for a silent server."""
        sock = None
        try:
            sock = self._dial()
            if context is not None:
                sock = self._shake_hands(sock, context)
            sock.settimeout(self._timeout)
            keep_alive(sock)
        except BROKEN as error:
            if sock is not None:
                self._discard(sock)
            if self._closed:
                raise ClientClosed(_CLOSED) from error
            host, port = self._address
            through = f" through the proxy {self._proxy}" if self._proxy else ""
            raise connect_error(error, f"{host}:{port}{through}") from error
        return sock

    def _dial(self) -> socket.socket:
        if self._proxy is not None:
            return self._occupy(self._proxy.connect(*self._address, CONNECT_TIMEOUT))
        failure = OSError("its name has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(*self._address, type=socket.SOCK_STREAM):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await_connection(sock, self._begin_to_connect(sock, address), CONNECT_TIMEOUT)
            except BaseException as error:
                self._discard(sock)
                if not isinstance(error, OSError):
                    raise
                failure = error
            else:
                return sock
        raise failure

    def _begin_to_connect(self, sock: socket.socket, address: Any) -> int:
        """The number of the error that this begins with, which is that it takes a while."""
        sock.setblocking(False)
        with self._lock:
            if self._closed:
                raise ClientClosed(_CLOSED)
            self._busy.add(sock)
            # Under the lock, since a socket that has sent nothing yet can't be shut down: `close()` would miss it.
            return sock.connect_ex(address)

    def _shake_hands(self, sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        tls = context.wrap_socket(sock, server_hostname=self._server_name, do_handshake_on_connect=False)
        with self._lock:
            self._busy.discard(sock)  # `tls` has taken its place
        self._occupy(tls)
        try:
            tls.do_handshake()
        except BaseException:
            self._discard(tls)
            raise
        return tls

    def _occupy(self, sock: socket.socket) -> socket.socket:
        """Have `close()` shut this connection down from now on; raises ClientClosed if it has been called already."""
        with self._lock:
            if not self._closed:
                self._busy.add(sock)
                return sock
        sock.close()
        raise ClientClosed(_CLOSED)

    # One exchange.

    def _exchange(self, sock: socket.socket, context: ssl.SSLContext | None, message: bytes) -> Response:
        try:
            response = self._send(sock, message)
            body = response.read_all(self._max_response_bytes)
        except BaseException as error:
            self._discard(sock)
            if isinstance(error, BROKEN):
                raise self._broken(error) from error
            raise
        if response.will_close:
            self._discard(sock)
        else:
            self._keep(sock, context)
        return Response(response.status, response.headers, body)

    def _send(self, sock: socket.socket, message: bytes) -> Answer:
        """Send, and read up to the end of the headers. Raises _Lost or TransportError; the caller closes."""
        response = None
        try:
            sock.sendall(message)
            response = Answer(sock)
            response.begin()
        except BROKEN as error:
            if isinstance(error, _CUT_OFF):
                raise _Lost(sent=response is not None) from error
            raise self._broken(error) from error
        return response

    def _lost(self, lost: _Lost) -> TransportError:
        if self._closed:
            return ClientClosed("the client was closed before the answer came")
        return TransportError(
            f"{self.host} closed the connection without an answer"
            if lost.sent
            else f"the connection to {self.host} broke before the request was sent: it was not processed"
        )

    def _broken(self, error: Exception) -> TransportError:
        if self._closed:
            return ClientClosed("the client was closed before the answer came")
        return read_error(error, self.host)


_transports: weakref.WeakSet[Transport] = weakref.WeakSet()


def _after_fork() -> None:
    for transport in list(_transports):
        transport.after_fork()


os.register_at_fork(after_in_child=_after_fork)
