"""Which clients may stay connected to the embedded API server, and for how long."""

import errno
import gc
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.threads import no_threads_left
from tfoperator.local.apiserver.http.listener import TokenPlaces, listen_on_loopback, make_certificate
from tfoperator.servers.http import accepting
from tfoperator.servers.http.limits import Limits
from tfoperator.servers.http.messages import Answer, Request
from tfoperator.servers.http.server import HttpServer

LIMIT = 60.0  # seconds until something has to have happened
ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
ASK_WITH_TOKEN = b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\n"


class Greeting(HttpServer):
    """Answers with a word to whoever has the token."""

    def __init__(self, **places: Any) -> None:
        limits = Limits(request_seconds=LIMIT, handshake_seconds=LIMIT, idle_seconds=LIMIT)
        listening = listen_on_loopback(0)
        assert listening.getsockname()[0] == "127.0.0.1", "on loopback only"
        super().__init__("", 0, name="test", limits=limits, listening=listening, places=TokenPlaces(**places))
        self._certificate = make_certificate()[1]
        self._clients = ExitStack()

    def context(self) -> ssl.SSLContext:
        return self._certificate

    def trusts(self, request: Request) -> bool:
        return request.headers.get("authorization") == "Bearer t"

    async def respond(self, request: Request) -> Answer:
        return Answer(b"hello")

    @property
    def waiting(self) -> int:
        return len(tuple(self._connections))

    def connect(self, sent: bytes = b"") -> socket.socket:
        """A client that sends this, without TLS."""
        client = self._clients.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT))
        client.sendall(sent)
        return client

    def shake_hands(self) -> ssl.SSLSocket:
        """A client that has sent no request yet."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return self._clients.enter_context(context.wrap_socket(self.connect()))

    def stop(self) -> None:
        super().stop()
        self._clients.close()


@contextmanager
def serving(**places: Any) -> Iterator[Greeting]:
    with no_threads_left():
        server = Greeting(**places)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def ask(client: socket.socket, sent: bytes = ASK_WITH_TOKEN) -> bytes:
    """Return the answer to a request."""
    client.sendall(sent)
    return client.recv(65536)


def is_open(client: socket.socket) -> bool:
    """Whether a client that gets nothing is still connected."""
    client.settimeout(0.05)
    try:
        return client.recv(1) != b""
    except TimeoutError:
        return True
    except ConnectionResetError:
        return False


def test_the_unauthenticated_client_that_came_first_goes_when_there_are_too_many() -> None:
    with serving(max_unauthenticated=3) as server:
        clients = [server.connect(b"x" * number) for number in range(5)]
        eventually(lambda: [is_open(client) for client in clients] == [False, False, True, True, True], within=LIMIT)
        assert ask(server.shake_hands()).endswith(b"hello")
        assert [is_open(client) for client in clients[2:]] == [False, True, True], "one for one"


def test_who_has_the_token_stays_and_who_does_not_get_so_far_goes_in_time() -> None:
    with serving(max_unauthenticated=3, patience=0.5) as server:
        whole = server.shake_hands()
        assert ask(whole).endswith(b"hello")
        began = time.monotonic()
        silent, half, slow = server.connect(), server.shake_hands(), server.shake_hands()
        slow.sendall(ASK_WITH_TOKEN[:-2])
        assert [client.recv(1) for client in (silent, half, slow)] == [b""] * 3
        assert time.monotonic() - began >= 0.4
        for _ in range(5):
            server.connect()
        eventually(lambda: server.waiting == 1, within=LIMIT)
        assert ask(whole).endswith(b"hello")


def test_without_the_token_a_client_has_one_answer() -> None:
    with serving() as server:
        client = server.shake_hands()
        assert b"\r\nConnection: close\r\n" in ask(client, ASK)
        assert client.recv(1) == b""


def test_those_that_have_left_by_themselves_do_not_count() -> None:
    with serving(max_unauthenticated=3) as server:
        stays = server.connect()
        for _ in range(10):
            left = server.connect()
            eventually(lambda: server.waiting == 2, within=LIMIT)
            left.close()
            eventually(lambda: server.waiting == 1, within=LIMIT)
        assert is_open(stays)


@pytest.mark.parametrize("sent", [b"", b"no handshake"])
def test_clients_that_are_gone_take_no_memory(sent: bytes) -> None:
    def connections() -> int:
        return sum(isinstance(obj, SSLProtocol) for obj in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        with serving(max_unauthenticated=3) as server:
            before = connections()  # of what else this process has open
            for _ in range(20):
                server.connect(sent).close()
            eventually(lambda: connections() - before <= 3, within=LIMIT)
    finally:
        gc.enable()


def test_without_files_it_makes_room_waits_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Exhausted:
        """A listening socket that finds no file for three connections."""

        def __init__(self, listening: socket.socket) -> None:
            self.tries = 0
            self._listening = listening

        def accept(self) -> tuple[socket.socket, Any]:
            self.tries += 1
            if self.tries <= 3:
                raise OSError(errno.EMFILE, "Too many open files")
            return self._listening.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._listening, name)

    monkeypatch.setattr(accepting, "_RETRY_SECONDS", 0.01)
    with serving() as server:
        trusted, strangers = server.shake_hands(), [server.connect(), server.connect(b"half")]
        assert ask(trusted).endswith(b"hello")
        eventually(lambda: server.waiting == 3, within=LIMIT)
        acceptor = server._acceptors[0]
        acceptor._socket = exhausted = Exhausted(acceptor._socket)  # type: ignore[assignment]
        assert ask(server.shake_hands()).endswith(b"hello")
        assert [is_open(client) for client in strangers] == [False, False]
        assert ask(trusted).endswith(b"hello")
        assert exhausted.tries >= 4
    assert [record.getMessage() for record in caplog.records] == [
        "can't accept connections at the moment: [Errno 24] Too many open files"
    ]


def test_clients_with_the_token_are_not_limited() -> None:
    with serving(max_unauthenticated=2) as server:
        clients = [server.shake_hands() for _ in range(2)]
        for _ in range(30):
            assert ask(clients[-1]).endswith(b"hello")
            clients.append(server.shake_hands())
        assert all(ask(client).endswith(b"hello") for client in clients[1:])
