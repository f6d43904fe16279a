"""Requests as attackers write them: each is answered once, or refused."""

import select
import socket
from collections.abc import AsyncGenerator, Iterator

import pytest

from tests.support.http_mistakes import MALFORMED, exchanged, statuses
from tfoperator.servers.http.limits import Limits
from tfoperator.servers.http.messages import Answer, Request, StreamedAnswer
from tfoperator.servers.http.server import HttpServer

WITHIN = 60.0
LAST = b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


class Echo(HttpServer):
    """Answers with the body, and knows what was asked."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1", 0, name="test", limits=Limits(body=1024, received=4096, idle_seconds=30.0))
        self.asked: list[str] = []
        self.reasons: list[str] = []

    async def respond(self, request: Request) -> Answer | StreamedAnswer:
        self.asked.append(f"{request.method} {request.path}")
        return StreamedAnswer(self._chunks(), "text/plain") if request.path == "/stream" else Answer(request.body)

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        yield b"a chunk"

    def refused(self, reason: str) -> None:
        self.reasons.append(reason)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WITHIN)


@pytest.fixture
def server() -> Iterator[Echo]:
    one = Echo()
    one.start()
    yield one
    one.stop()


def answered(server: Echo, sent: bytes) -> bytes:
    return exchanged(server.connect, sent, half_close=True)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
def test_the_body_of_a_request_is_no_request(server: Echo, method: str) -> None:
    sent = f"{method} /first HTTP/1.1\r\nHost: x\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n".encode() + SMUGGLED
    said = answered(server, sent + LAST)
    assert server.asked == [f"{method} /first", "GET /last"]
    assert (SMUGGLED in said) is (method != "HEAD")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("coding", ["chunked", "Chunked", "gzip, chunked"])
def test_a_body_in_chunks_is_refused_and_ends_the_connection(server: Echo, method: str, coding: str) -> None:
    head = f"{method} /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {coding}\r\n\r\n"
    said = answered(server, head.encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED) + LAST)
    assert (statuses(said), server.asked) == ([411], [])


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_long_body_is_refused_and_ends_the_connection(server: Echo, method: str) -> None:
    head = f"{method} /first HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n"
    said = answered(server, head.encode() + SMUGGLED.ljust(2000) + LAST)
    assert (statuses(said), server.asked) == ([413], [])


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
def test_what_can_be_understood_in_two_ways_is_refused(server: Echo, sent: bytes) -> None:
    assert statuses(answered(server, sent + LAST)) == [400]
    assert server.asked == []


@pytest.mark.parametrize("path", ["/", "/stream"])
def test_the_answer_to_head_has_no_body(server: Echo, path: str) -> None:
    sent = f"HEAD {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    head, _, body = answered(server, sent.encode()).partition(b"\r\n\r\n")
    assert (statuses(head), body) == ([200], b"")
    assert (b"Content-Length: 5" in head) is (path == "/")
    head, _, body = answered(server, b"HEAD / HTTP/1.1x\r\n\r\n").partition(b"\r\n\r\n")
    assert (statuses(head), body) == ([400], b"")


def test_who_is_still_sending_learns_why_the_request_is_refused(server: Echo) -> None:
    with server.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 131072\r\n\r\n" + b"x" * 65536)
        assert select.select([client], [], [], WITHIN)[0], "the answer is there"
        for _ in range(16):  # most clients send all before they read
            client.sendall(b"x" * 4096)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"1 KiB" in answer
    assert server.reasons == ["too_large"]
