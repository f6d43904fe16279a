import os
import socket
import ssl
import threading
import warnings
from contextlib import ExitStack, closing, nullcontext
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.kube.conftest import Certificates, Serve
from tests.unit.kube.server import Exchange, Handler, drips, silent
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.config.tls import TlsOptions
from tfoperator.kube.http.connections.destination import find_destination
from tfoperator.kube.http.connections.pool import MAX_IDLE_SECONDS
from tfoperator.kube.http.connections.transport import Transport
from tfoperator.kube.protocol import errors


@pytest.fixture
def connect():
    with ExitStack() as opened:

        def make(
            url: str, tls: TlsOptions | None = None, *, proxy_url: str = "", clock: Clock | None = None, **options: Any
        ) -> Transport:
            clock = clock or SystemClock()
            destination = find_destination(url, tls, clock=clock, proxy_url=proxy_url)
            return opened.enter_context(closing(Transport(destination, clock=clock, **options)))

        yield make


def ok(exchange: Exchange) -> None:
    exchange.respond(200, b"{}")


def test_the_path_of_the_server_and_given_headers_are_sent_without_delay(serve: Serve, connect) -> None:
    server = serve(ok)
    transport = connect(server.url + "/k8s/clusters/c-1/")
    transport.request("GET", "/version", [("Accept", "a"), ("X", "1"), ("X", "2")])
    (request,) = server.requests
    assert request.target == "/k8s/clusters/c-1/version"
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert [value for name, value in request.header_lines if name == "X"] == ["1", "2"]
    sock = transport._pool._idle[0][0].sock
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize("bad", ["a\r\nX: 1", "a\nb", "ä"])
def test_a_header_can_not_smuggle_another_one(serve: Serve, connect, bad: str) -> None:
    transport = connect(serve(ok).url)
    with pytest.raises(ValueError, match="line break or a character"):
        transport.request("GET", "/", [("Authorization", bad)])
    with pytest.raises(ValueError, match="line break or a character"):
        transport.request("GET", f"/{bad}")


def test_an_idle_connection_that_the_server_closed_is_not_used(serve: Serve, connect) -> None:
    closed = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.respond(200)
        if exchange.connection == 1:
            exchange.hang_up()
            closed.set()

    server = serve(handler)
    transport = connect(server.url)
    transport.request("POST", "/first")
    assert closed.wait(60)
    sock = transport._pool._idle[0][0].sock
    sock.setblocking(True)
    assert sock.recv(1, socket.MSG_PEEK) == b""  # the end has arrived
    sock.settimeout(60)
    transport.request("POST", "/second")
    assert [(r.target, r.connection) for r in server.requests] == [("/first", 1), ("/second", 2)]


def test_a_connection_is_used_again_unless_it_was_idle_for_long(serve: Serve, connect) -> None:
    clock = FakeClock()
    server = serve(ok)
    transport = connect(server.url, clock=clock)
    for body in (b"1", b"2"):
        assert transport.request("POST", "/", body=body).status == 200
    assert [r.body for r in server.requests] == [b"1", b"2"]
    clock.advance(MAX_IDLE_SECONDS - 1)
    transport.request("GET", "/")
    assert server.connections == 1
    clock.advance(MAX_IDLE_SECONDS + 1)
    transport.request("GET", "/")
    assert server.connections == 2


def lose_second_request(how: str):
    def handler(exchange: Exchange) -> None:
        if exchange.connection == 1 and len(exchange.server.requests) == 2:
            exchange.reset() if how == "reset" else exchange.hang_up()
        else:
            exchange.respond(200, b"{}")

    return handler


@pytest.mark.parametrize("how", ["reset", "eof"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_of_what_an_idle_connection_lost_a_read_is_sent_again_and_never_a_write_that_may_have_arrived(
    serve: Serve, connect, how: str, method: str
) -> None:
    server = serve(lose_second_request(how))
    transport = connect(server.url)
    transport.request("GET", "/1")
    with nullcontext() if method == "GET" else pytest.raises(errors.TransportError, match="without an answer"):
        assert transport.request(method, "/2", body=b"{}").status == 200
    again = [("/2", 2)] if method == "GET" else []
    assert [(r.target, r.connection) for r in server.requests] == [("/1", 1), ("/2", 1), *again]
    assert transport.request("GET", "/3").status == 200


def test_a_write_that_could_not_be_sent_is_sent_on_a_new_connection(serve: Serve, connect, monkeypatch) -> None:
    server = serve(ok)
    transport = connect(server.url)
    transport.request("GET", "/1")
    # As if the server's reset arrived between the look at the idle connection and the sending.
    sock = transport._pool._idle[0][0].sock
    sock.shutdown(socket.SHUT_RDWR)
    monkeypatch.setattr("tfoperator.kube.http.connections.pool.readable", lambda sock: False)
    assert transport.request("POST", "/2", body=b"{}").status == 200
    assert [(r.target, r.connection) for r in server.requests] == [("/1", 1), ("/2", 2)]


def test_where_nothing_listens_and_what_name_does_not_resolve_is_said(connect) -> None:
    with pytest.raises(errors.ConnectionRefused, match=r"no server listens at 127\.0\.0\.1:1"):
        connect("http://127.0.0.1:1").request("GET", "/")
    with pytest.raises(errors.TransportError, match=r"cannot resolve the name of nowhere\.invalid:80"):
        connect("http://nowhere.invalid").request("GET", "/")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


@pytest.mark.parametrize(
    "never_ends",
    [silent, drips(b"HTTP/1.1 200 OK\r\nX: "), drips(HEAD.replace(b"200", b"403") + b"x")],
    ids=["silent", "head", "error"],
)
def test_a_server_that_never_comes_to_an_end_is_given_up(serve: Serve, connect, never_ends: Handler) -> None:
    transport = connect(serve(never_ends).url, timeout=0.1)
    with pytest.raises(errors.DeadlineExceeded, match="in time"):
        transport.request("GET", "/")
    with pytest.raises(errors.DeadlineExceeded, match="in time"):
        transport.open_stream("/").read_all(60.0, 1 << 20)


def test_a_stream_that_has_begun_goes_on_for_as_long_as_it_likes(serve: Serve, connect) -> None:
    clock = FakeClock()
    stream = connect(serve(drips(HEAD + b"x")).url, timeout=60.0, clock=clock).open_stream("/")
    for _ in range(3):
        clock.advance(3600)
        assert stream.read(60.0).strip(b"x") == b""
    stream.close()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (b"", errors.TransportError, "closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", errors.TransportError, None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", errors.TransportError, None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab", errors.MalformedResponse, None),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", errors.MalformedResponse, None),
    ],
)
def test_an_answer_that_is_cut_or_no_http_is_an_error(
    serve: Serve, connect, answer: bytes, error: type, words: str | None
) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.send(answer)
        exchange.hang_up()

    server = serve(handler)
    with pytest.raises(error, match=words):
        connect(server.url).request("GET", "/")
    assert len(server.requests) == 1


def test_an_answer_may_not_be_larger_than_the_limit(serve: Serve, connect) -> None:
    server = serve(lambda exchange: exchange.respond(200, b"x" * int(exchange.target[1:])))
    transport = connect(server.url, max_response_bytes=1000)
    assert len(transport.request("GET", "/1000").body) == 1000
    with pytest.raises(errors.AnswerTooLarge, match="larger than the limit of 1000 bytes"):
        transport.request("GET", "/1001")


def test_close_wakes_requests_at_once_and_refuses_new_ones(serve: Serve, connect) -> None:
    server = serve(silent)
    transport = connect(server.url)
    asking = [InThread(lambda: transport.request("GET", "/")) for _ in range(3)]
    eventually(lambda: len(server.requests) == 3)
    transport.close()
    for call in asking:
        with pytest.raises(errors.ClientClosed):
            call.result()
    with pytest.raises(errors.ClientClosed):
        transport.request("GET", "/")
    with pytest.raises(errors.ClientClosed):
        transport.open_stream("/")


@pytest.mark.parametrize("stage", ["connecting", "shaking hands"])
def test_close_does_not_wait_for_a_connection_that_is_being_made(connect, stage: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        filling = [socket.socket() for _ in range(4 if stage == "connecting" else 0)]
        for sock in filling:  # a full backlog: further connections are not answered at all
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        scheme = "http" if stage == "connecting" else "https"
        transport = connect(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}")
        asking = InThread(lambda: transport.request("GET", "/"))
        eventually(lambda: transport._pool._busy, what="a connection is being made")
        if stage == "shaking hands":
            eventually(lambda: any(isinstance(connection, ssl.SSLSocket) for connection in transport._pool._busy))
        transport.close()
        with pytest.raises(errors.ClientClosed):
            asking.result()
        for sock in filling:
            sock.close()


def test_a_connection_is_not_made_after_close(serve: Serve, connect, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(ok)
    transport = connect(server.url)

    class ClosingSocket(socket.socket):
        def setsockopt(self, *options: object) -> None:
            transport.close()
            super().setsockopt(*options)

    monkeypatch.setattr(socket, "socket", ClosingSocket)
    with pytest.raises(errors.ClientClosed):
        transport.request("GET", "/")
    assert server.connections == 0


@pytest.mark.parametrize("tls", [False, True])
def test_a_gathering_read_takes_all_that_is_there(serve: Serve, connect, certificates: Certificates, tls: bool) -> None:
    sent, go_on = threading.Event(), threading.Semaphore(0)

    def handler(exchange: Exchange) -> None:
        exchange.begin_chunks()
        for number in range(30):
            exchange.chunk(b"%02d" % number * 1000)
        sent.set()
        assert go_on.acquire(timeout=60)
        exchange.chunk(b"more")
        assert go_on.acquire(timeout=60)
        exchange.chunk(b"last")
        exchange.end_chunks()

    server = serve(handler, certificates.server_context() if tls else None)
    stream = connect(server.url, certificates.trust).open_stream("/")
    assert sent.wait(20)
    gathered = [stream.read(5, 10_000)]
    if tls:
        assert len(gathered[0]) < 12_000, "no more than asked for, but for the last piece"
    while sum(map(len, gathered)) < 60_000:
        gathered.append(stream.read(5, 1 << 20))
    assert b"".join(gathered) == b"".join(b"%02d" % number * 1000 for number in range(30))
    assert len(gathered) < 10, "thirty pieces, each read by itself"
    go_on.release()
    assert stream.read(5, 1 << 20) == b"more"
    go_on.release()
    assert b"".join(iter(lambda: stream.read(5), b"")) == b"last"
    assert stream.closed()
    assert stream.read(5) == b""


def test_a_gathering_read_returns_what_came_before_nonsense(serve: Serve, connect, certificates: Certificates) -> None:
    sent = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.begin_chunks()
        exchange.chunk(b"first")
        exchange.send(b"zz\r\n")
        sent.set()
        exchange.wait_until_client_leaves()
        exchange.hang_up()

    server = serve(handler, certificates.server_context())
    stream = connect(server.url, certificates.trust).open_stream("/")
    assert sent.wait(20)
    assert stream.read(5, 1 << 20) == b"first"
    with pytest.raises(errors.MalformedResponse):
        stream.read(5, 1 << 20)
    assert stream.closed()


def test_a_forked_child_leaves_the_parents_connections_alone(serve: Serve, connect) -> None:
    server = serve(lambda exchange: exchange.respond(200, str(exchange.connection).encode()))
    transport = connect(server.url)
    assert transport.request("GET", "/parent").body == b"1"
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, since Python 3.12
        child = os.fork()
    if child == 0:
        try:
            os.write(writer, transport.request("GET", "/child").body)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        assert os.read(reader, 10) == b"2"
    finally:
        os.close(reader)
        os.waitpid(child, 0)
    assert transport.request("GET", "/parent").body == b"1"
