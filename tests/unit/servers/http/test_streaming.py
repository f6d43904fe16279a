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
    """Streams numbers at /count, nothing ever at /silence, as much as anybody takes at /flood; /slow waits before."""

    def __init__(self, request_seconds: float = 30.0) -> None:
        super().__init__("127.0.0.1", 0, name="test", limits=Limits(request_seconds=request_seconds, idle_seconds=30.0))
        self.open = self.begun = self.ended = 0
        self.asked: list[str] = []
        self.go_on = asyncio.Event()

    @property
    def lost(self) -> bool:
        """Whether every client has left."""
        return all(connection.left for connection in self._connections)

    async def respond(self, request: Request) -> Answer | StreamedAnswer:
        self.asked.append(request.path)
        if request.path == "/slow":
            await self.go_on.wait()
        return StreamedAnswer(
            self._chunks(request.path), "text/plain", (("X-Of", request.query),), over=self._count_end
        )

    def _count_end(self) -> None:
        self.ended += 1

    async def _chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        self.open += 1
        self.begun += 1
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


NUMBERS = b"2\r\n0\n\r\n2\r\n1\n\r\n2\r\n2\n\r\n0\r\n\r\n"


def test_chunks_are_sent_as_such_and_the_connection_serves_on_and_a_bug_ends_its_own_stream_alone() -> None:
    with serving() as server:
        with asked(server, "/broken") as connection:
            assert everything(connection).endswith(b"6\r\nbegun\n\r\n"), "the client sees that there is more"
        with asked(server, "/count?from=0") as connection:
            connection.sendall(b"GET /count HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            head, _, rest = everything(connection).partition(b"\r\n\r\n")
        eventually(lambda: server.ended == 3, within=WITHIN)
        assert server.open == 0
    first, second = rest.split(b"HTTP/1.1 200 OK")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"Content-Length" not in head
    assert b"X-Of: from=0" in head
    assert b"Connection: close" not in head
    assert first == NUMBERS
    assert b"Connection: close" in second
    assert second.endswith(NUMBERS)


def test_a_client_of_the_first_http_gets_no_chunks() -> None:
    with serving() as server, socket.create_connection(("127.0.0.1", server.port), timeout=WITHIN) as connection:
        connection.sendall(b"GET /count HTTP/1.0\r\n\r\n")
        head, _, body = everything(connection).partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head
    assert body == b"0\n1\n2\n"


def test_a_stream_whose_client_has_left_before_it_begins_is_over_too() -> None:
    with serving() as server, asked(server, "/slow") as connection:
        eventually(lambda: server.asked == ["/slow"], within=WITHIN)
        connection.close()
        eventually(lambda: server.lost, within=WITHIN)
        server.in_loop(server.go_on.set)
        eventually(lambda: server.ended == 1, within=WITHIN)
        assert server.begun == 0


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
