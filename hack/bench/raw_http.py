"""Requests with nothing around them: one kept connection per thread, ready bytes out, status and bytes back.

Load and floor must cost this machine as little as they can, and must not profit from what the operator's own client
does well: so they share none of its code.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

_TIMEOUT = 60.0
_REST = 60.0  # seconds; API servers close a connection that was idle for 90


class RequestFailed(Exception):
    """The API server refused a request of the benchmark itself: the run is worth nothing."""


class RawClient:
    """Requests of one user. Thread-safe: each thread has a connection of its own, until `close()`."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        self._address = urlsplit(url).netloc
        self._context = ssl.create_default_context(cafile=ca_file)
        self._authorization = f"Bearer {token}"
        self._local = threading.local()
        self._lock = threading.Lock()  # guards _connections
        self._connections: list[http.client.HTTPSConnection] = []

    def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json", accept: str = "*/*"
    ) -> bytes:
        """The body of the answer. Raises RequestFailed for a status that is no 2xx, OSError for a broken connection."""
        connection = self._connection()
        headers = {"Authorization": self._authorization, "Content-Type": content_type, "Accept": accept}
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        data = answer.read()
        if not 200 <= answer.status < 300:
            raise RequestFailed(f"{method} {path}: {answer.status} {data[:300].decode(errors='replace')}")
        return data

    @contextmanager
    def stream(self, path: str, accept: str) -> Iterator[http.client.HTTPResponse]:
        """The answer to a GET that goes on, over a connection of its own. Raises RequestFailed, OSError."""
        with closing(http.client.HTTPSConnection(self._address, timeout=_TIMEOUT, context=self._context)) as connection:
            connection.request("GET", path, headers={"Authorization": self._authorization, "Accept": accept})
            answer = connection.getresponse()
            if answer.status != HTTPStatus.OK:
                raise RequestFailed(f"GET {path}: {answer.status}")
            yield answer

    def close(self) -> None:
        """Close all connections; threads must not use them any more."""
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    def _connection(self) -> http.client.HTTPSConnection:
        now = time.monotonic()
        rested = now - getattr(self._local, "used", now)
        self._local.used = now
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(self._address, timeout=_TIMEOUT, context=self._context)
            self._local.connection = connection
            with self._lock:
                self._connections.append(connection)
        elif rested < _REST:
            return connection
        connection.close()
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
