"""The connections to one server.

The pool opens connections, keeps idle connections for later requests, and closes all connections at once.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import weakref
from typing import Any, NamedTuple

from tfoperator.base.clock import Clock
from tfoperator.kube.config.tls import ClientCertificate
from tfoperator.kube.http.connections.destination import Destination
from tfoperator.kube.http.connections.stream import ByteStream
from tfoperator.kube.http.connections.wire import (
    BROKEN,
    await_connection,
    connect_error,
    keep_alive,
    readable,
    shut_down,
)
from tfoperator.kube.protocol.errors import ClientClosed

CONNECT_TIMEOUT = 10.0
MAX_IDLE_SECONDS = 45.0
"""The maximum idle time of a connection that the pool uses again. Load balancers drop idle connections after a minute
or more, and the embedded API server after 75 s.
"""
MAX_IDLE_CONNECTIONS = 64
"""The maximum number of idle connections, unless the client needs more concurrent requests."""

_CLOSED = "the client is closed"


class ClientConnection(NamedTuple):
    """A connection, and the TLS context with which it was opened (None for plain HTTP)."""

    sock: socket.socket
    context: ssl.SSLContext | None


class Pool:
    """Connections to one server.

    It is thread-safe, and usable after a fork (the child process opens its own connections). A connection that is not
    idle is busy until the caller passes it to `keep`, `discard` or `stream`.
    """

    def __init__(self, destination: Destination, timeout: float, parallelism: int, clock: Clock) -> None:
        self._destination = destination
        self._timeout = timeout
        self._clock = clock
        self._max_idle = max(MAX_IDLE_CONNECTIONS, parallelism)
        self.closed = False
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()  # guards `closed` and the fields below
        self._idle: list[tuple[ClientConnection, float]] = []  # with the time since when it is idle; last in, first out
        self._busy: set[socket.socket] = set()
        self._streams: weakref.WeakSet[ByteStream] = weakref.WeakSet()

    def after_fork(self) -> None:
        """Close the child's copies of the connections that the parent process has opened.

        The child process calls this method after a fork. The connections of the parent stay open.
        """
        inherited, streams = [connection.sock for connection, _ in self._idle] + list(self._busy), list(self._streams)
        self._reset()
        for sock in inherited:
            sock.close()
        for stream in streams:
            stream.release()

    def take_idle(self, certificate: ClientCertificate | None) -> ClientConnection | None:
        """Take an idle connection that is still valid.

        A connection is valid if it was opened with the present TLS context, and is not closed by the server. A
        connection that was idle for more than MAX_IDLE_SECONDS is not valid either. Return None if there is no valid
        connection. Raises ClientClosed after `close()`.
        """
        # A connection with a client certificate authenticates when it is opened. When the certificate changes,
        # connections with the old certificate are dropped within a second.
        tls = self._destination.tls
        context = tls.recent_context(certificate) if tls else None
        stale, usable = [], None
        oldest = self._clock.monotonic() - MAX_IDLE_SECONDS
        with self._lock:
            if self.closed:
                raise ClientClosed(_CLOSED)
            while self._idle and usable is None:
                connection, since = self._idle.pop()
                if since >= oldest and connection.context is context and not readable(connection.sock):
                    usable = connection
                    self._busy.add(usable.sock)
                else:
                    stale.append(connection.sock)
        for sock in stale:
            sock.close()
        return usable

    def keep(self, connection: ClientConnection) -> None:
        """Put a connection that can be used again back into the pool. Close it if the pool is full or closed."""
        with self._lock:
            self._busy.discard(connection.sock)
            if not self.closed and len(self._idle) < self._max_idle:
                self._idle.append((connection, self._clock.monotonic()))
                return
        connection.sock.close()

    def discard(self, sock: socket.socket) -> None:
        """Close a connection. Idempotent."""
        with self._lock:
            self._busy.discard(sock)
        sock.close()

    def stream(self, sock: socket.socket, stream: ByteStream) -> None:
        """Move a busy connection to the stream that reads it. From then on, `close()` of the pool ends this stream."""
        with self._lock:
            self._busy.discard(sock)
            self._streams.add(stream)
            closed = self.closed
        if closed:
            stream.close()

    def close(self) -> None:
        """Close every connection, and wake the threads that read from them. Idempotent."""
        with self._lock:
            self.closed = True
            idle, self._idle = self._idle, []
            streams = list(self._streams)
            # Under the lock: otherwise another thread may close a socket, and the kernel may reuse its descriptor.
            for sock in self._busy:
                shut_down(sock)
        for connection, _ in idle:
            connection.sock.close()
        for stream in streams:
            stream.close()

    # Opening a connection.

    def connect(self, certificate: ClientCertificate | None) -> ClientConnection:
        """Open a connection.

        The connection counts as busy from the beginning, so `close()` can end it even if the server does not respond.
        Raises TransportError if the connection fails, ClientClosed after `close()`, and ConfigError if a certificate
        file is unusable.
        """
        host, port = self._destination.address
        tls, proxy = self._destination.tls, self._destination.proxy
        context = tls.context(certificate) if tls else None
        sock = None
        try:
            sock = self._dial((host, port) if proxy is None else (proxy.host, proxy.port))
            if proxy is not None:
                proxy.open_tunnel(sock, host, port, self._clock, CONNECT_TIMEOUT)
            if context is not None:
                sock = self._shake_hands(sock, context)
            sock.settimeout(self._timeout)
            keep_alive(sock)
        except BROKEN as error:
            if sock is not None:
                self.discard(sock)
            if self.closed:
                raise ClientClosed(_CLOSED) from error
            through = f" through the proxy {proxy}" if proxy else ""
            raise connect_error(error, f"{host}:{port}{through}") from error
        return ClientConnection(sock, context)

    def _dial(self, address: tuple[str, int]) -> socket.socket:
        failure = OSError("its name can't be resolved to an address")
        for family, kind, protocol, _, resolved in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await_connection(sock, self._begin_to_connect(sock, resolved), CONNECT_TIMEOUT)
            except BaseException as error:
                self.discard(sock)
                if not isinstance(error, OSError):
                    raise
                failure = error
            else:
                return sock
        raise failure

    def _begin_to_connect(self, sock: socket.socket, address: Any) -> int:
        """Begin to connect. Return the error number of `connect_ex`, which is normally EINPROGRESS or EWOULDBLOCK.

        Raises ClientClosed if the pool is closed.
        """
        sock.setblocking(False)
        with self._lock:
            if self.closed:
                raise ClientClosed(_CLOSED)
            self._busy.add(sock)
            # Under the lock, since a socket that has sent nothing yet can't be shut down: `close()` would miss it.
            return sock.connect_ex(address)

    def _shake_hands(self, sock: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        tls = context.wrap_socket(sock, server_hostname=self._destination.server_name, do_handshake_on_connect=False)
        with self._lock:
            self._busy.discard(sock)  # `tls` takes its place
            self._busy.add(tls)
            closed = self.closed
        try:
            if closed:
                raise ClientClosed(_CLOSED)
            tls.do_handshake()
        except BaseException:
            self.discard(tls)
            raise
        return tls


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.after_fork()


os.register_at_fork(after_in_child=_after_fork)
