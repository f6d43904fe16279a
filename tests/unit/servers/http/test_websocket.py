"""WebSockets as strangers' clients and attackers open them."""

import asyncio
import socket
import struct
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress

import pytest
import websocket as client_library

from tests.support.eventually import eventually
from tests.support.http_mistakes import statuses
from tests.support.threads import no_threads_left
from tfoperator.servers.http import websocket as sockets
from tfoperator.servers.http.limits import Limits
from tfoperator.servers.http.messages import Request, WebSocket, WebSocketAnswer
from tfoperator.servers.http.server import HttpServer

WITHIN = 60.0
KEY = b64encode(b"0123456789abcdef").decode()
HANDSHAKE = {
    "Host": "x", "Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY, "Sec-WebSocket-Protocol": "v4, v9",
}  # fmt: skip
MOST = 1000


class Echo(HttpServer):
    """Sends each message back, in upper case, and ends after "bye"."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1", 0, name="test", limits=Limits(body=100, received=1000, idle_seconds=30.0))
        self.open = self.talks = 0

    async def respond(self, request: Request) -> WebSocketAnswer:
        return WebSocketAnswer(self._shout, ("v5", "v4"), MOST)

    async def _shout(self, socket: WebSocket) -> None:
        self.open += 1
        self.talks += 1
        try:
            async for message in socket:
                await socket.send(message.upper())
                if message == b"bye":
                    break
        finally:
            self.open -= 1


@pytest.fixture
def server() -> Iterator[Echo]:
    with no_threads_left():
        serving = Echo()
        serving.start()
        yield serving
        serving.stop()


def handshake(method: str = "GET", **changed: str | None) -> bytes:
    """A request for a WebSocket, with headers changed or, by None, left out."""
    headers = {**HANDSHAKE, **{name.replace("_", "-"): value for name, value in changed.items()}}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([f"{method} / HTTP/1.1", *lines, "\r\n"]).encode()


def frame(first: int, data: bytes, *, masked: bool = True, length: int | None = None) -> bytes:
    """A client's frame; `first` is its first byte."""
    size = len(data) if length is None else length
    flag = 0x80 if masked else 0
    if size < 126:
        head = bytes((first, flag | size))
    elif size < 1 << 16:
        head = bytes((first, flag | 126)) + struct.pack("!H", size)
    else:
        head = bytes((first, flag | 127)) + struct.pack("!Q", size)
    return head + (b"\0\0\0\0" if masked else b"") + data


def connect(server: Echo, sent: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=WITHIN)
    connection.sendall(sent)
    return connection


def opened(server: Echo) -> socket.socket:
    """A connection whose handshake is done."""
    connection, head = connect(server, handshake()), b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nSec-WebSocket-Protocol: v4\r\n" in head
    assert b"\r\nSec-WebSocket-Extensions" not in head
    return connection


def everything(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_clients_library_sends_receives_and_takes_leave(server: Echo) -> None:
    client = client_library.create_connection(
        f"ws://127.0.0.1:{server.port}/", subprotocols=["v9", "v4"], timeout=WITHIN
    )
    assert client.subprotocol == "v4"
    client.send_binary(b"a\xff")
    assert client.recv() == b"A\xff"
    client.send("Grüße")
    assert client.recv() == b"GR\xc3\xbc\xc3\x9fE"
    client.ping(b"there?")
    assert client.recv_data(control_frame=True) == (client_library.ABNF.OPCODE_PONG, b"there?")
    client.send("bye")
    assert client.recv() == b"BYE"
    assert client.recv_data(control_frame=True)[0] == client_library.ABNF.OPCODE_CLOSE
    client.shutdown()
    eventually(lambda: not tuple(server._connections), within=WITHIN)


def test_a_message_in_pieces_is_one_message(server: Echo) -> None:
    with opened(server) as connection:
        sent = frame(0x02, b"a") + frame(0x89, b"ping") + frame(0x00, b"b") + frame(0x00, b"") + frame(0x80, b"c")
        for byte in sent:
            connection.sendall(bytes((byte,)))
        received = b""
        while len(received) < 11:
            received += connection.recv(65536)
        assert received == b"\x8a\x04ping" + b"\x82\x03ABC"
        connection.sendall(frame(0x82, b"late") + frame(0x88, struct.pack("!H", 1000)))
        assert everything(connection) == b"\x88\x02\x03\xe8", "it is not answered after its farewell"


NO_HANDSHAKES = {
    "POST": handshake("POST"),
    "a body": handshake(Content_Length="5") + b"hello",
    "no connection header": handshake(Connection=None),
    "no upgrade": handshake(Upgrade=None),
    "another upgrade": handshake(Upgrade="SPDY/3.1"),
    "two upgrades": handshake(Upgrade="websocket, h2c"),
    "no key": handshake(Sec_WebSocket_Key=None),
    "a short key": handshake(Sec_WebSocket_Key="YQ=="),
    "a key that is no base64": handshake(Sec_WebSocket_Key="\xff" * 24),
    "two keys": handshake(Sec_WebSocket_Key=f"{KEY}\r\nSec-WebSocket-Key: {KEY}"),
    "an old version": handshake(Sec_WebSocket_Version="8"),
    "a strange subprotocol": handshake(Sec_WebSocket_Protocol="a b,,\x7f"),
    "HTTP/1.0": handshake().replace(b"HTTP/1.1", b"HTTP/1.0"),
}


@pytest.mark.parametrize("sent", NO_HANDSHAKES.values(), ids=NO_HANDSHAKES)
def test_what_is_no_handshake_is_refused_and_ends_the_connection(
    server: Echo, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(server, sent + frame(0x82, b"hello") + b"GET /smuggled HTTP/1.1\r\n\r\n") as connection:
        connection.shutdown(socket.SHUT_WR)
        assert statuses(everything(connection)) == [400]
    assert server.talks == 0
    assert not caplog.records


WRONG_FRAMES = {
    "not masked": (frame(0x82, b"hello", masked=False), 1002),
    "a reserved bit": (frame(0xC2, b"hello"), 1002),
    "an unknown kind": (frame(0x83, b"hello"), 1002),
    "a continuation of nothing": (frame(0x80, b"hello"), 1002),
    "a message within another": (frame(0x02, b"hello") + frame(0x82, b"hello"), 1002),
    "a ping in pieces": (frame(0x09, b"hello"), 1002),
    "a long ping": (frame(0x89, b"x" * 126), 1002),
    "a close with one byte": (frame(0x88, b"x"), 1002),
    "a close with a strange code": (frame(0x88, struct.pack("!H", 5)), 1002),
    "no text": (frame(0x81, b"\xff\xfe"), 1007),
    "a long message": (frame(0x82, b"x" * (MOST + 1)), 1009),
    "a message that is long in pieces": (frame(0x02, b"x" * MOST) + frame(0x80, b"x"), 1009),
    "the length of everything": (frame(0x82, b"", length=(1 << 63) - 1), 1009),
    "a compressed message": (frame(0xC1, b"\xf2\x48\xcd\xc9\xc9\x07\x00"), 1002),
}


@pytest.mark.parametrize(("sent", "code"), WRONG_FRAMES.values(), ids=WRONG_FRAMES)
def test_wrong_frames_end_the_connection_with_the_reason(
    server: Echo, sent: bytes, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(server) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = everything(connection)
    assert received[0] == 0x88
    assert struct.unpack("!H", received[2:4]) == (code,)
    eventually(lambda: server.open == 0, within=WITHIN)
    assert not caplog.records


@pytest.mark.parametrize("resets", [False, True])
def test_a_client_that_leaves_ends_the_talk(server: Echo, resets: bool, caplog: pytest.LogCaptureFixture) -> None:
    connection = opened(server)
    eventually(lambda: server.open == 1, within=WITHIN)
    if resets:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    eventually(lambda: server.open == 0, within=WITHIN)
    assert not caplog.records


def test_a_client_that_gives_no_sign_of_life_is_gone_and_another_stays(
    server: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "_HEARTBEAT_SECONDS", 0.3)
    silent = opened(server)
    lively = client_library.create_connection(f"ws://127.0.0.1:{server.port}/", timeout=WITHIN)
    eventually(lambda: server.open == 2, within=WITHIN)
    lively.settimeout(0.05)
    with silent:

        def one_is_left() -> bool:
            with suppress(client_library.WebSocketTimeoutException):
                lively.recv()  # it answers a ping while it waits
            return server.open == 1

        eventually(one_is_left, within=WITHIN)
    lively.settimeout(WITHIN)
    lively.send_binary(b"still there")
    assert lively.recv() == b"STILL THERE"
    lively.shutdown()


def test_a_client_that_does_not_read_holds_no_more_than_a_few_messages(server: Echo) -> None:
    connection = opened(server)
    connection.settimeout(0.5)
    sent = 0
    with suppress(TimeoutError):
        while sent < 256 << 20:
            sent += connection.send(frame(0x89, b"x" * 125) * 500)
    assert sent < 256 << 20, "pings are taken only as their answers are read"
    connection.close()
    eventually(lambda: server.open == 0, within=WITHIN)


def test_a_stop_ends_the_talk(server: Echo) -> None:
    with opened(server) as connection:
        eventually(lambda: server.open == 1, within=WITHIN)
        server.stop()
        with suppress(ConnectionResetError):
            everything(connection)
        assert server.open == 0


def test_nothing_can_be_sent_once_it_is_closed() -> None:
    async def talk(socket: WebSocket) -> None:
        await socket.close()
        await socket.close()
        with pytest.raises(ConnectionResetError):
            await socket.send(b"late")
        over.set()

    class Closing(HttpServer):
        async def respond(self, request: Request) -> WebSocketAnswer:
            return WebSocketAnswer(talk)

    over = asyncio.Event()
    serving = Closing("127.0.0.1", 0, name="test", limits=Limits())
    serving.start()
    try:
        client = client_library.create_connection(f"ws://127.0.0.1:{serving.port}/", timeout=WITHIN)
        assert client.recv_data(control_frame=True)[0] == client_library.ABNF.OPCODE_CLOSE
        client.shutdown()
        eventually(over.is_set, within=WITHIN)
    finally:
        serving.stop()


def test_a_text_message_is_sent_as_text_and_the_end_is_reported_also_of_a_handshake_that_is_refused() -> None:
    async def talk(socket: WebSocket) -> None:
        await socket.send_text("größer".encode())

    class Telling(HttpServer):
        async def respond(self, request: Request) -> WebSocketAnswer:
            return WebSocketAnswer(talk, over=lambda: ends.append(request.path))

    ends: list[str] = []
    serving = Telling("127.0.0.1", 0, name="test", limits=Limits())
    serving.start()
    try:
        client = client_library.create_connection(f"ws://127.0.0.1:{serving.port}/a", timeout=WITHIN)
        assert client.recv_data() == (client_library.ABNF.OPCODE_TEXT, "größer".encode())
        client.shutdown()
        eventually(lambda: ends == ["/a"], within=WITHIN)
        with socket.create_connection(("127.0.0.1", serving.port), WITHIN) as connection:
            connection.sendall(handshake(Sec_WebSocket_Key=None))
            assert statuses(everything(connection)) == [400]
        eventually(lambda: ends == ["/a", "/"], within=WITHIN)
    finally:
        serving.stop()
