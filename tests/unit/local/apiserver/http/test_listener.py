import asyncio
import errno
import gc
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tfoperator.local.apiserver.http.listener import ListeningSocket, make_certificate

LIMIT = 5.0  # seconds until something has to have happened


class Greeting(asyncio.Protocol):
    """Says a word on a connection whose handshake is done."""

    def connection_made(self, transport: Any) -> None:
        transport.write(b"hello")


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[ListeningSocket]:
    """A listener that serves."""
    _, context = make_certificate()
    with ListeningSocket(0, **options) as listener:
        task = asyncio.create_task(listener.serve(Greeting, context))
        async with asyncio.timeout(LIMIT):
            yield listener
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await listener.hang_up()


async def connect(listener: ListeningSocket) -> socket.socket:
    client = socket.socket()
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, listener.getsockname())
    return client


async def rest(client: socket.socket) -> bytes:
    """What a silent client gets until it is sent away."""
    try:
        return await asyncio.get_running_loop().sock_recv(client, 100)
    except ConnectionResetError:
        return b""


async def greet(listener: ListeningSocket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as a client that knows what to do."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(*listener.getsockname(), ssl=context)
    assert await reader.readexactly(5) == b"hello"
    return reader, writer


@pytest.mark.asyncio
async def test_the_unauthenticated_client_that_came_first_goes_when_there_are_too_many() -> None:
    async with serving(max_unauthenticated=3) as listener:
        assert listener.getsockname()[0] == "127.0.0.1", "on loopback only"
        clients = [await connect(listener) for _ in range(5)]
        assert [await rest(client) for client in clients[:2]] == [b"", b""]
        still = [asyncio.ensure_future(rest(client)) for client in clients[2:]]
        _, writer = await greet(listener)
        assert [one.done() for one in still] == [True, False, False], "one for one"
        for one in still:
            one.cancel()
        for client in clients:
            client.close()
        writer.close()


@pytest.mark.asyncio
async def test_who_has_the_token_stays_and_who_does_not_get_so_far_goes_in_time() -> None:
    async with serving(max_unauthenticated=3, patience=0.2) as listener:
        began = time.monotonic()
        silent = await connect(listener)
        half = await greet(listener)
        whole = await greet(listener)
        listener.trust(whole[1].get_extra_info("sockname"))
        assert await rest(silent) == b""
        assert await half[0].read() == b""
        assert time.monotonic() - began >= 0.2
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(whole[0].read(), 0.3)
        more = [await connect(listener) for _ in range(5)]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(whole[0].read(), 0.1)
        for client in (silent, *more):
            client.close()
        for _, writer in (half, whole):
            writer.close()


@pytest.mark.asyncio
async def test_those_that_have_left_by_themselves_do_not_count() -> None:
    async with serving(max_unauthenticated=3) as listener:
        stays = await connect(listener)
        for _ in range(10):
            left = await connect(listener)
            left.close()
            await asyncio.sleep(0.02)
        waiting = asyncio.ensure_future(rest(stays))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        waiting.cancel()
        stays.close()


@pytest.mark.parametrize("said", [b"", b"no handshake"])
@pytest.mark.asyncio
async def test_clients_that_are_gone_take_no_memory(said: bytes) -> None:
    def connections() -> int:
        return sum(isinstance(one, SSLProtocol) for one in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        async with serving(max_unauthenticated=3) as listener:
            before = connections()  # of what else this process has open
            for _ in range(20):
                client = await connect(listener)
                client.send(said)
                await asyncio.sleep(0.01)
                client.close()
            while connections() - before > 3:
                await asyncio.sleep(0.01)
    finally:
        gc.enable()


@pytest.mark.asyncio
async def test_without_files_it_makes_room_waits_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[float] = []
    async with serving() as listener:
        loop = asyncio.get_running_loop()
        stranger = await connect(listener)
        await asyncio.sleep(0.05)
        accept = loop.sock_accept

        async def exhausted(sock: socket.socket) -> Any:
            asked.append(loop.time())
            if len(asked) < 4:
                raise OSError(errno.EMFILE, "Too many open files")
            return await accept(sock)

        monkeypatch.setattr(loop, "sock_accept", exhausted)
        (await connect(listener)).close()
        _, writer = await greet(listener)
        assert await rest(stranger) == b""
        stranger.close()
        writer.close()
    assert asked[3] - asked[0] >= 0.5
    assert [record.getMessage() for record in caplog.records if "can't accept" in record.getMessage()] == [
        "can't accept a connection: Too many open files; 2 unauthenticated clients go"
    ]
    assert not any(record.exc_info for record in caplog.records)
