"""The HTTPS server that API servers send ConversionReviews to: few threads, bounded bodies, deadlines for everything.

API servers keep connections open and use them again, so there is a thread per connection, which a handshake (a
millisecond of CPU) pays for many times over. An idle one is closed later than their own clients would: a request that
crosses the end of its connection fails, and nobody repeats it. New certificates concern new connections only, for the
same reason.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

from tfoperator.api.webhook_names import CONVERSION_PATH
from tfoperator.webhook.certificates import KeyPair
from tfoperator.webhook.metrics import WebhookMetrics
from tfoperator.webhook.review import MalformedReview, answer
from tfoperator.webhook.tls import server_context

__all__ = ["MAX_BODY", "ReviewServer", "ServerError"]

logger = logging.getLogger(__name__)

MAX_BODY = 8 << 20
"""Bytes of a review. What an API server stores has at most 1.5 MiB as JSON, and it asks for objects one by one."""

_SMALL_BODY = 256 << 10
_LARGE_AT_ONCE = 2
_CONVERTING = 4
_CONNECTIONS = 128
"""A Go client keeps 25 idle connections at most, and a cluster rarely has more than three API servers."""

_WAITING = 64
_HANDSHAKE_SECONDS = 10.0
_REQUEST_SECONDS = 10.0
_IDLE_SECONDS = 150.0
"""More than the 90 s after which Go's clients close an idle connection themselves."""

_POLL_SECONDS = 0.1
_DRAIN_SECONDS = 5.0


class ServerError(OSError):
    """The address can't be listened on; the message names it."""


class ReviewServer:
    """Answers reviews at one address, once it has a certificate to show. `start()` once, then `stop()`. Thread-safe."""

    def __init__(self, host: str, port: int, metrics: WebhookMetrics) -> None:
        """Listens at once, so that a taken port is known early. Port 0 takes a free one. Raises ServerError."""
        try:
            self._server = _Server(host, port, metrics)
        except OSError as error:
            where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise ServerError(f"can't listen on {where} for the webhook: {error.strerror or error}") from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="webhook", daemon=True
        )

    @property
    def port(self) -> int:
        """The port in use."""
        return int(self._server.server_address[1])

    @property
    def has_certificate(self) -> bool:
        """Whether clients can be served."""
        return self._server.context is not None

    def show(self, certificate: KeyPair) -> None:
        """Show this certificate from the next connection on. Raises CertificateError if it can't be used."""
        self._server.context = server_context(certificate)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def drain(self) -> None:
        """Answer on, but end each connection with its next answer, so that clients go elsewhere."""
        self._server.draining = True

    def stop(self) -> None:
        """Stop listening, answer what is under way, and end every thread. Idempotent."""
        self.drain()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Use(NamedTuple):
    """What a connection is doing: until when that may take, and whether a request is under way."""

    deadline: float
    busy: bool


class _Server(HTTPServer):
    allow_reuse_address = True
    request_queue_size = _WAITING

    def __init__(self, host: str, port: int, metrics: WebhookMetrics) -> None:
        self.metrics = metrics
        self.context: ssl.SSLContext | None = None
        self.draining = False
        self.converting = threading.BoundedSemaphore(_CONVERTING)
        self.large = threading.BoundedSemaphore(_LARGE_AT_ONCE)
        self._changed = threading.Condition()  # guards _uses and that its sockets are open
        self._uses: dict[socket.socket, _Use] = {}
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's own: it asks the resolver for our name, which can take long and serves nothing.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        context = self.context
        with self._changed:
            full = len(self._uses) >= _CONNECTIONS
        if context is None or full:
            self.metrics.review_failed("turned_away")
            self.shutdown_request(request)
            return
        # The handshake is for the connection's thread: here it would hold up everybody.
        connection = context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        self.use(connection, _HANDSHAKE_SECONDS)
        threading.Thread(
            target=self._serve, args=(connection, client_address), name="webhook-connection", daemon=True
        ).start()

    def service_actions(self) -> None:
        """Called by the listening thread several times a second: a time-out per read would never end a trickle."""
        self._cut_off(lambda use: use.deadline <= time.monotonic())

    def use(self, connection: socket.socket, seconds: float, *, busy: bool = False) -> None:
        """A connection may do this for so long."""
        with self._changed:
            self._uses[connection] = _Use(time.monotonic() + seconds, busy)
            self._changed.notify_all()

    def _serve(self, connection: ssl.SSLSocket, client_address: Any) -> None:
        try:
            self.finish_request(connection, client_address)
        except OSError as error:
            # The client went away, was too slow, or doesn't trust us (yet).
            logger.debug("connection from %s: %s", client_address, error)
        except Exception:
            self.metrics.review_failed("error")
            logger.exception("a request from %s failed", client_address)
        finally:
            with self._changed:
                del self._uses[connection]
                self._changed.notify_all()
                with contextlib.suppress(OSError):
                    connection.close()

    def _cut_off(self, which: Callable[[_Use], bool]) -> None:
        with self._changed:
            for connection, use in self._uses.items():
                if which(use):
                    # The plain socket's method: TLS's own would take the connection's thread by surprise.
                    with contextlib.suppress(OSError):
                        socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def server_close(self) -> None:
        super().server_close()
        self._cut_off(lambda use: not use.busy)
        end = time.monotonic() + _DRAIN_SECONDS
        with self._changed:
            self._changed.wait_for(lambda: not self._uses, max(0.0, end - time.monotonic()))
        self._cut_off(lambda _: True)
        with self._changed:
            self._changed.wait_for(lambda: not self._uses, _DRAIN_SECONDS)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    connection: ssl.SSLSocket
    protocol_version = "HTTP/1.1"
    server_version = "tfoperator"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1  # one write, and so one TLS record, for head and body

    def handle(self) -> None:
        server, connection = self.server, self.connection
        connection.do_handshake()
        self.close_connection = False
        patience = _REQUEST_SECONDS  # with who has not sent anything yet
        while not self.close_connection:
            server.use(connection, patience)
            if not self.rfile.peek(1):  # type: ignore[attr-defined] # a BufferedReader, as rbufsize says
                return
            server.use(connection, _REQUEST_SECONDS, busy=True)
            self.handle_one_request()
            patience = _IDLE_SECONDS

    def do_POST(self) -> None:
        if self.path.partition("?")[0] != CONVERSION_PATH:
            self._refuse(HTTPStatus.NOT_FOUND, "path", f"POST {CONVERSION_PATH} is all that is answered here")
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "length", "a request needs a Content-Length")
            return
        if len(length) > 12 or int(length) > MAX_BODY:
            message = f"a review may have {MAX_BODY >> 20} MiB"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", message)
            return
        # Many connections with a small body each, or few with a large one: either way memory is bounded.
        with self.server.large if int(length) > _SMALL_BODY else contextlib.nullcontext():
            body = self.rfile.read(int(length))
            if len(body) < int(length):
                self.close_connection = True
                return
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        server = self.server
        # Converting is work, not waiting: no deadline of the client's may cut it off.
        server.use(self.connection, math.inf, busy=True)
        with server.converting:
            began = time.perf_counter()
            try:
                reviewed = answer(body)
            except MalformedReview as error:
                self._refuse(HTTPStatus.BAD_REQUEST, "malformed", str(error))
                return
            seconds = time.perf_counter() - began
        if reviewed.failure:
            server.metrics.review_failed("conversion")
            logger.warning("a conversion failed: %s", reviewed.failure)
        else:
            server.metrics.reviewed(reviewed.version, reviewed.objects, seconds)
        server.use(self.connection, _REQUEST_SECONDS, busy=True)
        self._send(HTTPStatus.OK, "application/json", reviewed.body)

    def _refuse(self, status: HTTPStatus, reason: str, message: str) -> None:
        self.server.metrics.review_failed(reason)
        self.close_connection = True  # what is left of the request is not read
        self._send(status, "text/plain; charset=utf-8", f"{message}\n".encode(errors="replace"))

    def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.server.draining or self.close_connection:
            self.send_header("Connection", "close")  # also tells the base class
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        logger.debug(format, *args)
