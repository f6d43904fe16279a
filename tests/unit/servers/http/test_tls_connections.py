"""TLS of accepted connections: as asyncio's, with less memory."""

import asyncio
import gc
import socket
import ssl
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kube.conftest import Certificates
from tfoperator.servers.http.tls_connections import accept_tls


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    made = Certificates(tmp_path)
    made.make("server", "IP:127.0.0.1")
    return made


def run(work: Coroutine[Any, Any, None]) -> list[dict[str, Any]]:
    """Run it to its end; return what the loop would log: errors that no task has retrieved."""
    complaints: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        await work
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(watched(), timeout=20))
    return complaints


def size_of_buffer(transport: asyncio.BaseTransport | None) -> int:
    return len(vars(vars(transport)["_ssl_protocol"])["_ssl_buffer"])


def test_bytes_pass_in_both_directions_and_only_the_accepted_connection_has_a_small_buffer(
    certificates: Certificates,
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificates.ca))
    whole = bytes(range(256)) * 1024  # more than both buffers

    async def serve() -> None:
        client, plain = socket.socketpair()
        echo = Echo()
        opened = asyncio.open_connection(sock=client, ssl=trusting, server_hostname="127.0.0.1")
        (reader, writer), _ = await asyncio.gather(opened, accept_tls(echo, plain, certificates.server_context()))
        assert (size_of_buffer(echo.transport), size_of_buffer(writer.transport)) == (32 << 10, 256 << 10)
        writer.write(whole)
        assert await reader.readexactly(len(whole)) == whole
        writer.close()
        await writer.wait_closed()
        while plain.fileno() != -1:
            await asyncio.sleep(0.01)

    assert run(serve()) == []


def test_a_client_that_speaks_no_tls_is_an_error_and_its_socket_is_closed(certificates: Certificates) -> None:
    async def serve() -> None:
        client, plain = socket.socketpair()
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ssl.SSLError):
            await accept_tls(Echo(), plain, certificates.server_context())
        while plain.fileno() != -1:
            await asyncio.sleep(0.01)
        client.close()

    assert run(serve()) == []


def test_a_client_that_does_not_shake_hands_is_left_after_the_time_for_it(certificates: Certificates) -> None:
    async def serve() -> None:
        client, plain = socket.socketpair()
        with pytest.raises(ConnectionAbortedError):
            await accept_tls(Echo(), plain, certificates.server_context(), handshake_seconds=0.05)
        while plain.fileno() != -1:
            await asyncio.sleep(0.01)
        client.close()

    assert run(serve()) == []


@pytest.mark.parametrize("turns", [1, 2, 3, 4])
def test_a_handshake_that_is_cancelled_closes_the_socket(turns: int, certificates: Certificates) -> None:
    async def serve() -> None:
        client, plain = socket.socketpair()
        accepting = asyncio.ensure_future(accept_tls(Echo(), plain, certificates.server_context()))
        for _ in range(turns):  # of the loop: from the first step of the handshake on
            await asyncio.sleep(0)
        accepting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await accepting
        while plain.fileno() != -1:
            await asyncio.sleep(0.01)
        client.close()

    assert run(serve()) == []
