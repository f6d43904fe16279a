"""Crowds of strangers, with one connection each or with unread responses: who asks is answered."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.eventually import eventually
from tfoperator.servers.http.limits import Limits
from tfoperator.servers.http.messages import Answer, Request
from tfoperator.servers.http.server import HttpServer

PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
ASK_LARGE = PROBE.replace(b"/healthz", b"/large")
LARGE = 1 << 20


class Served(HttpServer):
    """Answers with as many bytes as the path asks for, and counts the connections that it turned away."""

    def __init__(self, limits: Limits) -> None:
        super().__init__("127.0.0.1", 0, name="test", limits=limits)
        # Else the kernel takes a whole response that nobody reads.
        self._acceptors[0]._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.turned_away = 0
        self._strangers = ExitStack()

    async def respond(self, request: Request) -> Answer:
        return Answer(b"x" * (LARGE if request.path == "/large" else 2))

    def refused(self, reason: str) -> None:
        self.turned_away += reason == "turned_away"

    def stranger(self, number: int, sent: bytes = b"") -> socket.socket:
        """A connection from an address of its own that reads nothing."""
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.bind((f"127.1.{number // 250}.{number % 250 + 1}", 0))
        made.connect(("127.0.0.1", self.port))
        made.sendall(sent)
        return self._strangers.enter_context(made)

    def ask(self, sent: bytes = PROBE) -> bytes:
        """All that comes for a request of a client at this machine's own address."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(sent)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))

    def stop(self) -> None:
        self._strangers.close()
        super().stop()


@contextmanager
def served(**limits: int) -> Iterator[Served]:
    server = Served(Limits(**limits, request_seconds=300.0))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("sent", [b"", b"G", b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nx"])
def test_sources_with_one_connection_each_keep_no_place_from_who_asks(sent: bytes) -> None:
    with served(connections=64, body=1024, received=1 << 20) as server:
        for number in range(256):
            server.stranger(number, sent)
            if number % 64 == 63:
                began = time.monotonic()
                assert server.ask().endswith(b"\r\n\r\nxx")
                assert time.monotonic() - began < 30
        assert server.turned_away == 0


def test_a_source_that_had_an_answer_keeps_its_place_before_those_that_had_none() -> None:
    with served(connections=64, body=1024, received=1 << 20) as server:
        assert server.ask()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(PROBE[:-2])
            for number in range(256):
                server.stranger(number, b"G")
            # The last connection is let in after all others, which could only end each other.
            assert server.ask().endswith(b"\r\n\r\nxx")
            connection.sendall(PROBE[-2:])
            assert connection.recv(1 << 16).endswith(b"\r\n\r\nxx")


def test_many_sources_that_had_an_answer_keep_no_place_from_newcomers() -> None:
    with served(connections=16, idle_seconds=300) as server:
        for number in range(32):
            asks = server.stranger(number, PROBE.replace(b"Connection: close\r\n", b""))
            assert asks.recv(1 << 16).endswith(b"xx")
        for number in range(32, 40):
            # Each is let in; of two strangers in a row the second does not end the first.
            asks = server.stranger(number)
            server.stranger(number + 100)
            asks.sendall(PROBE)
            assert asks.recv(1 << 16).endswith(b"xx")


def test_who_asks_is_answered_amid_a_burst_of_newcomers() -> None:
    server = Served(Limits(connections=64))
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as probe:
        probe.sendall(PROBE)
        for number in range(400):
            server.stranger(number, b"G")
        server.start()
        try:
            assert probe.recv(1 << 16).endswith(b"\r\n\r\nxx")
        finally:
            server.stop()


def test_unread_responses_are_bounded_and_end_first_half_of_them_of_one_source_but_one_may_be_larger() -> None:
    with served(connections=128, unsent=8 * LARGE) as server:
        for number in range(32):
            server.stranger(number % 4, ASK_LARGE)
        eventually(lambda: server.turned_away >= 32 - 8, what="all but the limit's worth are ended")
        assert len(server.ask(ASK_LARGE)) > LARGE
        assert sum(connection.unsent for connection in server._connections) <= 8 * LARGE
    with served(connections=128, unsent=8 * LARGE) as server:
        for _ in range(16):
            server.stranger(1, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: server.turned_away >= 16 - 4, what="more than half of the limit is ended")
        assert sum(connection.unsent for connection in server._connections) <= 5 * LARGE
    with served(unsent=LARGE // 4) as server:
        assert len(server.ask(ASK_LARGE)) > LARGE
        assert server.turned_away == 0
