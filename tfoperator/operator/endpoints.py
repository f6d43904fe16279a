"""The HTTP endpoints: `/healthz`, `/readyz` and `/metrics`, with a bounded number of threads and of waiting clients.

They serve GET on fixed paths and read nothing but the request's head. A client has a few seconds for everything: who is
slower is cut off, and so is everybody when the endpoint stops.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

from tfoperator.operator.values import Address

__all__ = ["Answer", "Endpoint", "EndpointError"]

logger = logging.getLogger(__name__)

_THREADS = 4
_WAITING = 16
_REQUEST_SECONDS = 5.0
_POLL_SECONDS = 0.1


class EndpointError(OSError):
    """The address can't be listened on; the message names it."""


class Answer(NamedTuple):
    """What a path answers."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


class Endpoint:
    """Answers GET for some paths at one address. `start()` once, then `stop()`."""

    def __init__(self, address: Address, routes: Mapping[str, Callable[[], Answer]], *, name: str) -> None:
        """Listens at once, so that a taken port is known early. Raises EndpointError. Port 0 takes a free one."""
        try:
            self._server = _Server(address, dict(routes))
        except OSError as error:
            raise EndpointError(f"can't listen on {address} for {name}: {error.strerror or error}") from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name=f"http-{name}", daemon=True
        )

    @property
    def port(self) -> int:
        """The port in use."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, cut off the requests under way and end every thread. Idempotent."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(HTTPServer):
    allow_reuse_address = True
    request_queue_size = _WAITING

    def __init__(self, address: Address, routes: dict[str, Callable[[], Answer]]) -> None:
        self.routes = routes
        self._room = threading.BoundedSemaphore(_THREADS + _WAITING)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="http")
        self._lock = threading.Lock()  # guards _deadlines, and that its sockets are open
        self._deadlines: dict[socket.socket, float] = {}
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        super().__init__((address.host, address.port), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's own: it asks the resolver for our name, which can take long and serves nothing.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        with self._lock:
            self._deadlines[request] = math.inf  # until its turn comes
        self._pool.submit(self._serve, request, client_address)

    def service_actions(self) -> None:
        """Called by the listening thread several times a second: a time-out per read would never end a trickle."""
        self._cut_off(time.monotonic())

    def _cut_off(self, now: float) -> None:
        with self._lock:
            for request, deadline in self._deadlines.items():
                if deadline <= now:
                    with contextlib.suppress(OSError):
                        request.shutdown(socket.SHUT_RDWR)

    def _serve(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._deadlines[request] = time.monotonic() + _REQUEST_SECONDS
        try:
            self.finish_request(request, client_address)
        except OSError as error:
            # The client went away or was too slow.
            logger.debug("request from %s: %s", client_address, error)
        except Exception:
            logger.exception("request from %s failed", client_address)
        finally:
            with self._lock:
                del self._deadlines[request]
            self.shutdown_request(request)
            self._room.release()

    def server_close(self) -> None:
        super().server_close()
        # Those that wait, too: one whose turn comes just now finds its connection at its end.
        self._cut_off(math.inf)
        self._pool.shutdown(wait=True, cancel_futures=True)
        for request in self._deadlines:
            request.close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "tfoperator"
    sys_version = ""

    def do_GET(self) -> None:
        route = self.server.routes.get(self.path.partition("?")[0])
        if route is None:
            self._send(Answer(b"not found\n", HTTPStatus.NOT_FOUND))
            return
        self._send(route())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        logger.debug(format, *args)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)
