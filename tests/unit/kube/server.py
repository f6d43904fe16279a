"""A real HTTP(S) server whose every byte a test decides on: answers, chunks, silence, hanging up, resetting."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO


class Exchange:
    """One request on one connection, and the means to answer it."""

    def __init__(
        self, server: ScriptedServer, sock: socket.socket, connection: int, head: list[str], body: bytes
    ) -> None:
        self.server = server
        self.sock = sock
        self.connection = connection
        start, *lines = head
        self.method, self.target, _ = start.split(" ")
        self.header_lines = [tuple(line.split(": ", 1)) for line in lines]
        self.headers = {name.lower(): value for name, value in self.header_lines}
        self.body = body
        self.hung_up = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def client_name(self) -> str:
        """Whom the certificate names that the client has shown."""
        assert isinstance(self.sock, ssl.SSLSocket)
        return str(dict(part[0] for part in self.sock.getpeercert()["subject"])["commonName"])  # type: ignore[index, misc]

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def respond(self, status: int = 200, body: Any = b"", *, media: str = "application/json", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {media}", f"Content-Length: {len(data)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def status(self, code: int, reason: str = "", message: str = "", **extra: Any) -> None:
        headers = extra.pop("headers", {})
        status = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
        self.respond(code, status | extra, **headers)

    def begin_chunks(self) -> None:
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data: bytes | dict[str, Any]) -> None:
        if isinstance(data, dict):
            data = json.dumps(data).encode() + b"\n"
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end_chunks(self) -> None:
        self.send(b"0\r\n\r\n")

    def hang_up(self) -> None:
        self.hung_up = True

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.hung_up = True

    def wait_until_client_leaves(self, limit: float = 60.0) -> bool:
        self.sock.settimeout(limit)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            try:
                return self.sock.recv(1) == b""
            except TimeoutError:
                return False
        return True


Handler = Callable[[Exchange], None]


def chunks(*sent: bytes | dict[str, Any]) -> Handler:
    """An answer in these chunks."""

    def handler(exchange: Exchange) -> None:
        exchange.begin_chunks()
        for chunk in sent:
            exchange.chunk(chunk)
        exchange.end_chunks()

    return handler


def stalls(*sent: bytes | dict[str, Any], left: threading.Event | None = None) -> Handler:
    """An answer that begins with these chunks and never ends; `left` is set when the client has gone."""

    def handler(exchange: Exchange) -> None:
        exchange.begin_chunks()
        for chunk in sent:
            exchange.chunk(chunk)
        if exchange.wait_until_client_leaves() and left is not None:
            left.set()
        exchange.hang_up()

    return handler


def silent(exchange: Exchange) -> None:
    """No answer at all."""
    exchange.wait_until_client_leaves()
    exchange.hang_up()


def drips(answer: bytes) -> Handler:
    """These bytes, and then the last of them again and again until the client leaves, at no time silent for long."""

    def handler(exchange: Exchange) -> None:
        with contextlib.suppress(OSError):
            exchange.send(answer)
            while not exchange.server.stopping.wait(0.02):
                exchange.send(answer[-1:])
        exchange.hang_up()

    return handler


def lists_and_watches(body: Any = None, *, watch: Handler = chunks()) -> Handler:  # noqa: B008 - it has no state
    """An answer with this body, by default an empty list, unless a watch is asked for."""

    def handler(exchange: Exchange) -> None:
        if "watch=true" in exchange.target:
            watch(exchange)
        else:
            exchange.respond(200, {"metadata": {"resourceVersion": "1"}, "items": []} if body is None else body)

    return handler


class ScriptedServer:
    """Listens on loopback and hands each request to `handler`, on a thread per connection."""

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self.handler = handler
        self.requests: list[Exchange] = []
        self.errors: list[Exception] = []
        self.connections = 0
        self.stopping = threading.Event()
        self._tls = tls
        self._lock = threading.Lock()
        self._socks: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._spawn(self._accept)

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self.errors:
            raise self.errors[0]

    def stop(self) -> None:
        self.stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for sock in self._socks:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
        end = time.monotonic() + 60
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
            assert not thread.is_alive(), "a handler of the test server does not end"

    def _spawn(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name="test-server", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._spawn(self._serve, sock, self.connections)

    def _serve(self, sock: socket.socket, number: int) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
            with self._lock:
                self._socks.add(sock)
            with sock.makefile("rb") as reader:
                while (read := self._read_request(reader)) is not None:
                    exchange = Exchange(self, sock, number, *read)
                    with self._lock:
                        self.requests.append(exchange)
                    self.handler(exchange)
                    if exchange.hung_up:
                        return
        except (ConnectionError, ssl.SSLError, TimeoutError):
            pass
        except Exception as error:  # noqa: BLE001 - raised in the test, when the server stops
            self.errors.append(error)
        finally:
            with self._lock:
                self._socks.discard(sock)
            sock.close()

    @staticmethod
    def _read_request(reader: BinaryIO) -> tuple[list[str], bytes] | None:
        head: list[str] = []
        while (line := reader.readline()) != b"\r\n":
            if not line:
                return None
            head.append(line.decode().removesuffix("\r\n"))
        length = next((int(line[15:]) for line in head if line.lower().startswith("content-length:")), 0)
        body = reader.read(length)
        return (head, body) if len(body) == length else None
