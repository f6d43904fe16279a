"""Requests as attackers write them: each is answered once, or refused."""

import select
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

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
    with running(Echo()) as serving:
        yield serving


@contextmanager
def running(server: Echo) -> Iterator[Echo]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


def answered(server: Echo, sent: bytes) -> bytes:
    return exchanged(server.connect, sent, half_close=True)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
def test_the_body_of_a_request_is_no_request(server: Echo, method: str) -> None:
    sent = f"{method} /first HTTP/1.1\r\nHost: x\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n".encode() + SMUGGLED
    response = answered(server, sent + LAST)
    assert server.asked == [f"{method} /first", "GET /last"]
    assert (SMUGGLED in response) is (method != "HEAD")


def in_chunks(*chunks: bytes, head: bytes = b"POST /first HTTP/1.1\r\nHost: x\r\n") -> bytes:
    """A request whose body comes in chunks."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_body_in_chunks_is_no_request(server: Echo, method: str) -> None:
    head = f"{method} /first HTTP/1.1\r\nHost: x\r\n".encode()
    response = answered(server, in_chunks(SMUGGLED[:9], SMUGGLED[9:], head=head) + LAST)
    assert server.asked == [f"{method} /first", "GET /last"]
    assert (SMUGGLED in response) is (method != "HEAD")


def test_extensions_of_chunks_and_trailers_mean_nothing(server: Echo) -> None:
    sent = b"POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: CHUNKED\r\n\r\n"
    sent += b'5;a="b";c\r\nhello\r\n0\r\nContent-Length: 3\r\nX: y\r\n\r\n'
    assert b"\r\n\r\nhello" in answered(server, sent + LAST)
    assert server.asked == ["POST /first", "GET /last"]


BROKEN_CHUNKS = {
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "no number": b"5x\r\nhello\r\n0\r\n\r\n",
    "a sign": b"+5\r\nhello\r\n0\r\n\r\n",
    "a prefix": b"0x5\r\nhello\r\n0\r\n\r\n",
    "an underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "a space": b"5 \r\nhello\r\n0\r\n\r\n",
    "a huge size": b"1" + b"0" * 16 + b"\r\nhello\r\n0\r\n\r\n",
    "a bare LF after the size": b"5\nhello\r\n0\r\n\r\n",
    "a bare LF in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "a bare CR in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "a long extension": b"5;" + b"a" * 300 + b"\r\nhello\r\n0\r\n\r\n",
    "an extension without end": b"5;" + b"a" * 100_000,
    "a longer chunk": b"5\r\nhello!\r\n0\r\n\r\n",
    "a bare LF after a chunk": b"5\r\nhello\n0\r\n\r\n",
    "a bare LF in the trailer": b"5\r\nhello\r\n0\r\nX: y\n\r\n",
    "a trailer without end": b"5\r\nhello\r\n0\r\n" + b"X: y\r\n" * 10_000,
}


@pytest.mark.parametrize("chunks", BROKEN_CHUNKS.values(), ids=BROKEN_CHUNKS)
def test_chunks_that_can_be_understood_in_two_ways_are_refused(server: Echo, chunks: bytes) -> None:
    sent = b"POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    assert statuses(answered(server, sent + LAST)) == [400]
    assert (server.asked, server.reasons) == ([], ["malformed"])


@pytest.mark.parametrize("coding", ["gzip, chunked", "chunked, chunked", "identity", "xchunked", "chunked\r\nX: \0"])
def test_no_other_coding_is_understood(server: Echo, coding: str) -> None:
    head = f"POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {coding}\r\n\r\n".encode()
    codes = statuses(answered(server, head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED) + LAST))
    assert (codes in ([400], [501]), server.asked) == (True, [])


def test_the_first_http_has_no_chunks(server: Echo) -> None:
    sent = in_chunks(SMUGGLED, head=b"POST /first HTTP/1.0\r\n")
    assert (statuses(answered(server, sent + LAST)), server.asked) == ([400], [])


@pytest.mark.parametrize("sizes", [(2000,), (1000, 24, 1), (1 << 31,)])
def test_a_long_body_in_chunks_is_refused_and_ends_the_connection(server: Echo, sizes: tuple[int, ...]) -> None:
    sent = b"POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for size in sizes:
        sent += b"%x\r\n%s\r\n" % (size, b"x" * min(size, 2000))
    assert (statuses(answered(server, sent + LAST)), server.asked) == ([413], [])


def test_a_client_that_asks_first_is_told_to_send_its_body(server: Echo) -> None:
    with server.connect() as client:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head)
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"5\r\nhello\r\n0\r\n\r\n")
        assert client.recv(65536).endswith(b"\r\n\r\nhello")


class Guarded(Echo):
    """Trusts who says so."""

    def trusts(self, request: Request) -> bool:
        return "x-trusted" in request.headers


def test_a_sender_that_is_not_trusted_is_answered_once_without_its_body() -> None:
    with running(Guarded()) as server:
        for body in (b"Content-Length: 5\r\n\r\nhello", in_chunks(b"hello", head=b"")):
            response = answered(server, b"POST /first HTTP/1.1\r\nHost: x\r\n" + body + LAST)
            assert (statuses(response), response.endswith(b"Connection: close\r\n\r\n")) == ([200], True)
        expecting = b"POST /first HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        assert statuses(answered(server, expecting)) == [200], "it is not asked for the body"
        response = answered(
            server, b"POST / HTTP/1.1\r\nHost: x\r\nX-Trusted: 1\r\nContent-Length: 5\r\n\r\nhello" + LAST
        )
        assert statuses(response) == [200, 200]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_long_body_is_refused_and_ends_the_connection(server: Echo, method: str) -> None:
    head = f"{method} /first HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n"
    response = answered(server, head.encode() + SMUGGLED.ljust(2000) + LAST)
    assert (statuses(response), server.asked) == ([413], [])


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
