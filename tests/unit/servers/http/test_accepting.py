"""In which order connections that wait are let in."""

import asyncio
import resource
import socket
from contextlib import ExitStack, closing

import pytest

from tfoperator.servers.http.accepting import Acceptor
from tfoperator.servers.http.limits import listen

KNOWN = "127.0.0.1"


def let_in(sources: list[str]) -> list[str]:
    """The order in which connections of these addresses, which all wait, are let in."""
    listening, order = listen(KNOWN, 0, "test"), list[str]()

    def keep(plain: socket.socket, address: str) -> None:
        plain.close()
        order.append(address)

    async def main() -> None:
        acceptor = Acceptor(listening, keep, KNOWN.__eq__)
        acceptor.start(asyncio.get_running_loop())
        async with asyncio.timeout(60):
            while len(order) < len(sources):
                await asyncio.sleep(0.01)
        acceptor.stop()

    with ExitStack() as clients:
        for source in sources:
            client = clients.enter_context(closing(socket.socket()))
            client.bind((source, 0))
            client.connect(listening.getsockname())
        asyncio.run(main())
    return order


def test_a_known_source_waits_for_no_crowd_and_strangers_have_a_quarter_of_the_turns_also_without_a_limit_of_open_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = let_in([f"127.1.0.{number}" for number in range(1, 201)] + [KNOWN])
    assert order.index(KNOWN) <= 64
    assert sorted(order) == sorted(set(order))
    order = let_in([KNOWN] * 30 + ["127.1.0.1", "127.1.0.2"])
    assert order[:8] == [KNOWN, KNOWN, KNOWN, "127.1.0.1", KNOWN, KNOWN, KNOWN, "127.1.0.2"]
    assert len(order) == 32
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert let_in([KNOWN]) == [KNOWN]


def test_strangers_leave_the_turns_of_known_sources_unused_and_what_waits_is_closed_with_the_server() -> None:
    listening, admitted = listen(KNOWN, 0, "test"), list[str]()

    def keep(plain: socket.socket, address: str) -> None:
        plain.close()
        admitted.append(address)

    async def main() -> None:
        acceptor = Acceptor(listening, keep, lambda _: False)
        for _ in range(2):  # in one pause, however often somebody comes
            acceptor._accept(asyncio.get_running_loop())
        acceptor.stop()
        acceptor.stop()

    with ExitStack() as opened:
        clients = [opened.enter_context(socket.create_connection(listening.getsockname(), 60)) for _ in range(20)]
        asyncio.run(main())
        assert [client.recv(1) for client in clients] == [b""] * 20
    assert len(admitted) == 2
