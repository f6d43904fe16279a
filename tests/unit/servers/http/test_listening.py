"""A server that listens at more than one address."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.threads import run_at_once
from tests.unit.servers.http.test_requests import WITHIN, Echo


@pytest.fixture
def server() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.stop()


def listening(host: str) -> socket.socket:
    return socket.create_server((host, 0))


def ask(address: tuple[str, int]) -> str:
    """Return its answer to its own address."""
    with closing(http.client.HTTPConnection(*address, timeout=WITHIN)) as connection:
        connection.request("POST", "/", address[0])
        return connection.getresponse().read().decode()


def test_addresses_are_added_before_and_after_its_start(server: Echo) -> None:
    before, after = listening("127.0.0.2"), listening("127.0.0.3")
    where = [before.getsockname(), after.getsockname(), ("127.0.0.1", server.port)]
    server.listen_also(before)
    server.start()
    server.listen_also(after)
    assert [ask(address) for address in where] == ["127.0.0.2", "127.0.0.3", "127.0.0.1"]
    assert server.port == where[-1][1]
    server.stop()
    for address in where:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=WITHIN)


def test_sockets_of_a_server_that_never_started_are_closed(server: Echo) -> None:
    sock = listening("127.0.0.2")
    server.listen_also(sock)
    server.stop()
    assert sock.fileno() == -1


def test_sockets_that_come_while_it_stops_or_later_are_all_closed(server: Echo) -> None:
    server.start()
    sockets = [listening("127.0.0.2") for _ in range(20)]
    run_at_once(server.stop, *(lambda sock=sock: server.listen_also(sock) for sock in sockets[1:]))
    server.listen_also(sockets[0])
    assert {sock.fileno() for sock in sockets} == {-1}
