"""A command in a container, over a real WebSocket."""

import asyncio
import hashlib
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from tests.support.threads import no_threads_left
from tests.unit.kube.conftest import MakeClient
from tests.unit.kube.server import Exchange, drips
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import StaticCredentials
from tfoperator.kube.http.sending.exec import Executed
from tfoperator.kube.protocol.errors import ForbiddenError, TransportError

COMMAND = ("echo", "a b&c")
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def asked(handler: Handler, **options: Any) -> Executed:
    """Return the output of a command from a server on loopback that answers every request with this handler."""

    async def ask() -> Executed:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        async with TestServer(app) as server:
            url = str(server.make_url("/prefix"))
            with Client(ClusterConfig(server=url, credentials=StaticCredentials("Bearer t"))) as client:
                return await asyncio.to_thread(client.pod_exec, "ns", "p", "tensorflow", COMMAND, **options)

    return asyncio.run(ask())


def answering(*messages: bytes, close: bool = True, protocol: str = "v5.channel.k8s.io") -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.path == "/prefix/api/v1/namespaces/ns/pods/p/exec"
        assert request.headers["Authorization"] == "Bearer t"
        assert request.query.getall("command") == [*COMMAND]
        assert request.query["container"] == "tensorflow"
        socket = web.WebSocketResponse(protocols=(protocol,))
        await socket.prepare(request)
        for message in messages:
            await socket.send_bytes(message)
        if close:
            await socket.close()
        else:
            while (await socket.receive()).type not in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING):
                pass
        return socket

    return handle


def status(**members: object) -> bytes:
    return b"\x03" + json.dumps({"kind": "Status", **members}).encode()


SUCCESS = status(status="Success")
FAILURE = status(status="Failure", message="exit code 7", details={"causes": [{"reason": "ExitCode", "message": "7"}]})


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_a_command_says_what_it_wrote_and_how_it_ended(protocol: str) -> None:
    done = asked(answering(b"\x01hel", b"\x01", b"\x02oh", b"\x01lo", SUCCESS, protocol=protocol))
    assert (done.output, done.errors, done.exit_code) == ("hello", "oh", 0)


@pytest.mark.parametrize(
    ("messages", "ended"),
    [
        ([FAILURE], Executed("", "exit code 7", 7)),
        ([b"\x01half", b"\x03not json", b"\x09?"], Executed("half", "", None)),
        ([b"\x01" + b"x" * 1000, b"\x01" + b"y" * 1000, SUCCESS], Executed("x" * 1000 + "y" * 500, "", 0)),
    ],
    ids=["its failure has an exit code", "of one that breaks off nobody knows it", "what is too much is dropped"],
)
def test_how_a_command_ends(messages: list[bytes], ended: Executed) -> None:
    assert asked(answering(*messages), max_bytes=1500) == ended


def test_a_command_that_does_not_end_is_given_up() -> None:
    with pytest.raises(TransportError, match=r"run a command in pods.*did not end in time"):
        asked(answering(b"\x01begun", close=False), timeout=0.5)


@pytest.mark.parametrize("sent", [b"HTTP/1.1 101 Switching", b"HTTP/1.1 403 No\r\nContent-Length: 90000\r\n\r\n"])
def test_a_server_that_never_comes_to_an_end_is_given_up(client_for: MakeClient, sent: bytes) -> None:
    client = client_for(drips(sent))
    with no_threads_left(), pytest.raises(TransportError, match="run a command in pods"):
        client.pod_exec("ns", "p", "tensorflow", ("echo",), timeout=0.5)


UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
PROTOCOL = b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n"


@pytest.mark.parametrize(
    ("spoil", "is_taken"),
    [
        (lambda head: head, True),
        (lambda head: head.replace(b"HTTP/1.1", b"HTTP/1.1x"), False),
        (lambda head: head.replace(b"HTTP/1.1", b"ICY"), False),
        (lambda head: head.replace(b"\r\n", b"\n"), False),
        (lambda head: head.replace(b"Upgrade:", b"Upgrade :"), False),
        (lambda head: head.replace(b"\r\nUpgrade", b"\r\n Upgrade"), False),
        (lambda head: head.replace(b"\r\nUpgrade", b"\r\nno header\r\nUpgrade"), False),
        (lambda head: head.replace(b"websocket", b"web\0socket"), False),
        (lambda head: head.replace(b"websocket", b"h2c, websocket"), False),
        (lambda head: head.replace(b"Connection: Upgrade", b"Connection: close"), False),
        (lambda head: head.replace(b"Accept: ", b"Accept: x"), False),
        (lambda head: head.replace(b"v5", b"v9"), False),
        (lambda head: head.replace(PROTOCOL, PROTOCOL * 2), False),
        (lambda head: b"HTTP/1.1 100 Continue\r\n\r\n" + head, True),
    ],
)
def test_no_inexact_handshake_is_taken(client_for: MakeClient, spoil: Callable[[bytes], bytes], is_taken: bool) -> None:
    def handle(exchange: Exchange) -> None:
        digest = hashlib.sha1(exchange.headers["sec-websocket-key"].encode() + GUID).digest()
        head = UPGRADE + PROTOCOL + b"Sec-WebSocket-Accept: " + b64encode(digest) + b"\r\n\r\n"
        exchange.send(spoil(head) + b"\x82" + bytes([len(SUCCESS)]) + SUCCESS)
        exchange.hang_up()

    client = client_for(handle)
    with nullcontext() if is_taken else pytest.raises(TransportError, match="run a command in pods"):
        assert client.pod_exec("ns", "p", "tensorflow", ("echo",), timeout=5.0).exit_code == 0


def test_who_may_not_is_told_by_the_servers_own_words_and_no_redirect_is_followed_with_credentials() -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": 'pods "p" is forbidden'}
        return web.json_response(body, status=403)

    async def elsewhere(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://127.0.0.1:1/")

    with pytest.raises(ForbiddenError, match="is forbidden"):
        asked(refuse)
    with pytest.raises(Exception, match=r"302|run a command"):
        asked(elsewhere)
