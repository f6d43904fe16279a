"""An HTTP proxy between one client and an API server that follows a script: refuse this, lose that answer, cut there.

It listens on loopback without TLS and forwards headers as they are, so credentials stay the client's own.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Rule:
    """The treatment of the next `times` requests that match `METHOD target`.

    `code` 0 forwards. `lose` forwards, and drops the answer. `cut_after` forwards, and breaks the connection after so
    many bytes of the body. `authorization` restricts it to requests that have this header. `first` is called before
    the answer is sent.
    """

    pattern: str
    times: int = 1
    code: int = 0
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    lose: bool = False
    cut_after: int | None = None
    authorization: str = ""
    first: Callable[[], object] = lambda: None


class ScriptedProxy:
    """A context manager. `seen` are the requests so far; `url` is where to send them. Thread-safe."""

    def __init__(self, upstream: str, certificate: str | bytes) -> None:
        """`certificate` is the authority's PEM, or a path of such a file."""
        data = certificate.decode() if isinstance(certificate, bytes) else None
        self._context = ssl.create_default_context(cadata=data, cafile=None if data else str(certificate))
        self._address = urlsplit(upstream).netloc
        self._lock = threading.Lock()  # guards _rules, seen and _open
        self._rules: list[Rule] = []
        self.seen: list[str] = []
        self._open: set[Any] = set()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                with proxy._kept(self.connection):
                    super().handle()

            def do_GET(self) -> None:
                proxy._handle(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - http.server wants these names

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_: object) -> None:
                pass  # connections that are cut are what this is for

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="scripted-proxy")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def script(self, *rules: Rule) -> None:
        with self._lock:
            self._rules += rules

    def count(self, pattern: str) -> int:
        with self._lock:
            return sum(1 for request in self.seen if re.search(pattern, request))

    def __enter__(self) -> ScriptedProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        with self._lock:
            opened = list(self._open)
        for connection in opened:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._thread.join(5)

    def _match(self, request: str, authorization: str) -> Rule | None:
        with self._lock:
            self.seen.append(request)
            for rule in self._rules:
                if rule.authorization not in ("", authorization) or not re.search(rule.pattern, request):
                    continue
                if rule.times > 0:
                    rule.times -= 1
                    return rule
        return None

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        rule = self._match(f"{handler.command} {handler.path}", handler.headers.get("Authorization", ""))
        if rule is not None and rule.code:
            rule.first()
            _answer(handler, rule)
            return
        headers = {k: v for k, v in handler.headers.items() if k.lower() not in ("host", "connection")}
        upstream = http.client.HTTPSConnection(self._address, context=self._context, timeout=60)
        try:
            upstream.connect()
            with self._kept(upstream.sock):
                upstream.request(handler.command, handler.path, body or None, headers)
                answer = upstream.getresponse()
                if rule is not None and rule.lose:
                    answer.read()
                    handler.close_connection = True
                    return
                _relay(handler, answer, rule.cut_after if rule else None)
        except (OSError, http.client.HTTPException, ValueError):  # ValueError: closed while it is read
            handler.close_connection = True
        finally:
            upstream.close()

    @contextlib.contextmanager
    def _kept(self, connection: Any) -> Iterator[None]:
        with self._lock:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)


def _answer(handler: BaseHTTPRequestHandler, rule: Rule) -> None:
    status = {"kind": "Status", "code": rule.code, "reason": rule.reason, "message": rule.reason or "as scripted"}
    body = json.dumps(status).encode()
    handler.send_response(rule.code)
    for name, value in {**rule.headers, "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def _relay(handler: BaseHTTPRequestHandler, answer: http.client.HTTPResponse, cut_after: int | None) -> None:
    handler.send_response(answer.status)
    for name, value in answer.getheaders():
        if name.lower() not in ("transfer-encoding", "connection", "content-length"):
            handler.send_header(name, value)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.flush()
    while data := answer.read1(1 << 16):
        if cut_after is not None:
            data, cut_after = data[:cut_after], cut_after - len(data)
        if data:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            handler.wfile.flush()
        if cut_after is not None and cut_after <= 0:
            handler.close_connection = True
            return
    handler.wfile.write(b"0\r\n\r\n")
