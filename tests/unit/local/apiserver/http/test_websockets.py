import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tfoperator.local.apiserver.http.api_request import ApiRequest
from tfoperator.local.apiserver.http.websockets import (
    log_answer,
    log_protocol,
    opens_websocket,
    refusal_of_watch,
    watch_answer,
)

PROTOCOLS = "sec-websocket-protocol"


def request(**headers: str) -> ApiRequest:
    return ApiRequest("GET", "/", {}, (), {name.replace("_", "-"): value for name, value in headers.items()}, b"")


class Client:
    """The server's end of a WebSocket. The client leaves after `messages`, if they end."""

    def __init__(self, *, leaves: bool) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self._leaves = leaves

    async def send(self, data: bytes) -> None:
        self.sent.append(("binary", data))

    async def send_text(self, data: bytes) -> None:
        self.sent.append(("text", data))

    async def close(self) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"ignored"
        if not self._leaves:
            await asyncio.Event().wait()


async def source(*chunks: bytes, ends: bool = True) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    if not ends:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({"upgrade": "WebSocket", "connection": "keep-alive, Upgrade"}, True),
        ({"upgrade": "websocket"}, False),
        ({"upgrade": "SPDY/3.1", "connection": "Upgrade"}, False),
        ({}, False),
    ],
)
def test_a_client_opens_a_websocket_with_two_headers(headers: dict[str, str], wanted: bool) -> None:
    assert opens_websocket(request(**headers)) is wanted


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://127.0.0.1"}, None),
        ({"origin": "https://127.0.0.1", PROTOCOLS: "a"}, None),
        ({"origin": "https://127.0.0.1", PROTOCOLS: "a, b"}, 400),
        ({}, 403),
        ({"origin": "nonsense"}, 403),
        ({"origin": "https://[half"}, 403),
    ],
)
def test_a_watch_needs_an_origin_and_at_most_one_protocol(headers: dict[str, str], status: int | None) -> None:
    refusal = refusal_of_watch(request(**headers))
    assert (refusal and refusal.status) == status


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ("", ""),
        ("binary.k8s.io", "binary.k8s.io"),
        ("a, base64.binary.k8s.io, binary.k8s.io", "base64.binary.k8s.io"),
        ("a", None),
    ],
)
def test_the_protocol_of_a_log_is_the_first_known_protocol_of_the_client(offered: str, chosen: str | None) -> None:
    assert log_protocol(request(**{PROTOCOLS: offered})) == chosen


@pytest.mark.asyncio
async def test_each_line_of_a_watch_is_a_message_until_the_watch_ends_or_the_client_leaves() -> None:
    client: Any = Client(leaves=False)
    await watch_answer(request(), source(b"1\n2\n", b"3\n"), lambda: None).talk(client)
    assert client.sent == [("text", b"1\n"), ("text", b"2\n"), ("text", b"3\n")]
    await asyncio.wait_for(watch_answer(request(), source(ends=False), lambda: None).talk(Client(leaves=True)), 60)


@pytest.mark.asyncio
async def test_a_log_without_news_sends_nothing_but_its_first_message() -> None:
    client: Any = Client(leaves=False)
    await log_answer(source(b"", b"a", b""), "base64.binary.k8s.io").talk(client)
    assert client.sent == [("text", b""), ("text", b"YQ==")]
