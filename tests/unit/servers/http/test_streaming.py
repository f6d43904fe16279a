"""Answers without a known end: sent as they come, ended with their client, the server or themselves."""

import asyncio
import gc
import socket
import struct
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

import pytest

from tests.support.eventually import eventually
from tfoperator.servers.http.limits import Limits
from tfoperator.servers.http.messages import Answer, Request, StreamedAnswer
from tfoperator.servers.http.server import HttpServer

WITHIN = 60.0


class Streaming(HttpServer):
    """Streams numbers at /count, nothing ever at /silence, as much as anybody takes at /flood."""

    def __init__(self, request_seconds: float = 30.0) -> None:
        super().__init__("127.0.0.1", 0, name="test", limits=Limits(request_seconds=request_seconds, idle_seconds=30.0))
        self.open = 0

    async def respond(self, request: Request) -> Answer | StreamedAnswer:
        return StreamedAnswer(self._chunks(request.path), "text/plain", (("X-Of", request.query),))

    async def _chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        self.open += 1
        try:
            if path == "/silence":
                await asyncio.Event().wait()
            if path == "/broken":
                yield b"begun\n"
                raise RuntimeError("a bug")
            while path == "/flood":
                yield b"x" * 65536
            for number in range(3):
                yield f"{number}\n".encode()
        finally:
            self.open -= 1


@contextmanager
def serving(request_seconds: float = 30.0) -> Iterator[Streaming]:
    server = Streaming(request_seconds)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def asked(server: Streaming, path: str) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=WITHIN) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        yield connection


def everything(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_chunks_come_without_a_length_and_end_with_the_connection_and_a_bug_ends_its_own_stream_alone() -> None:
    with serving() as server:
        with asked(server, "/broken") as connection:
            assert everything(connection).endswith(b"begun\n")
        with asked(server, "/count?from=0") as connection:
            head, _, body = everything(connection).partition(b"\r\n\r\n")
        assert server.open == 0
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"Content-Length" not in head
    assert b"X-Of: from=0" in head
    assert b"Connection: close" in head
    assert body == b"0\n1\n2\n"


@pytest.mark.parametrize("resets", [False, True])
def test_a_client_that_leaves_ends_what_it_has_asked_for_without_a_traceback(
    resets: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as server, asked(server, "/silence") as connection:
        eventually(lambda: server.open == 1, within=WITHIN)
        if resets:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        eventually(lambda: server.open == 0, within=WITHIN)
    gc.collect()
    assert not caplog.records


def test_a_client_that_does_not_read_is_cut_off() -> None:
    with serving(request_seconds=0.3) as server, asked(server, "/flood"):
        eventually(lambda: server.open == 1, within=WITHIN)
        eventually(lambda: server.open == 0, within=WITHIN)


def test_stopping_ends_streams_and_closes_what_makes_them() -> None:
    with serving() as server, asked(server, "/silence") as connection:
        eventually(lambda: server.open == 1, within=WITHIN)
        server.stop()
        assert everything(connection).endswith(b"\r\n\r\n")
        assert server.open == 0
