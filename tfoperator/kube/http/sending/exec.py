"""Runs one command in a container through an API server's `pods/exec`, over a WebSocket.

The protocol is `v5.channel.k8s.io` (or v4): each message is a byte for the channel, followed by data. The command's
stdin is closed from the start. The size of the command's output and the duration of the command are limited.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from base64 import b64encode
from typing import Any

import msgspec
import websocket

from tfoperator.kube.http.connections.answer import Response, ResponseReader, header_of
from tfoperator.kube.http.connections.transport import Headers, Transport
from tfoperator.kube.http.connections.wire import BROKEN, shut_down
from tfoperator.kube.protocol.errors import UNDECODABLE, StatusDetails, TransportError

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_UPGRADE = (
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Protocol", ", ".join(PROTOCOLS)),
)
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""The header `Sec-WebSocket-Accept` of the response must be a hash of the request's `Sec-WebSocket-Key` and this value.
The hash proves that the server has read the key (RFC 6455).
"""
_STDOUT, _STDERR, _STATUS = 1, 2, 3
_EXIT_CODE = "ExitCode"
_READ_SECONDS = 1.0  # the time limit of one read: the deadline is checked between reads


class Executed(msgspec.Struct, frozen=True):
    """The stdout (`output`) and stderr (`errors`) of a command, and its exit code (None if it is unknown).

    If stderr is empty, `errors` is the message of the server about the end of the command.
    """

    output: str
    errors: str
    exit_code: int | None


class ExecStatus(msgspec.Struct, frozen=True):
    """The `meta/v1 Status` in the last message of the server. `status` is Success or Failure."""

    status: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the command, or None if the command could not run, or if its exit code is unknown."""
        if self.status == "Success":
            return 0
        for cause in self.details.causes if self.details is not None else ():
            if cause.reason == _EXIT_CODE and cause.message.isascii() and cause.message.isdigit():
                return int(cause.message[:9])
        return None


def execute(
    transport: Transport, target: str, headers: Headers, *, certificate: Any, timeout: float, max_bytes: int
) -> Executed | Response:
    """Run a command in a container. `target` is the path and query of `pods/exec`, which contain the command.

    If the server refuses, return its response. Raises TransportError if the connection breaks, or if the whole run
    takes longer than `timeout` seconds. Output after `max_bytes` is dropped.
    """
    end = time.monotonic() + timeout
    sock = transport.open_socket(certificate)
    # The library has no deadline for a whole message, only for each read.
    watchdog = threading.Timer(timeout, shut_down, (sock,))
    watchdog.start()
    channel = websocket.WebSocket()
    try:
        key = b64encode(os.urandom(16)).decode("ascii")
        asked = (*headers, *_UPGRADE, ("Sec-WebSocket-Key", key))
        answer = transport.switch(sock, target, asked, min(timeout, 30.0))
        if answer.status != 101:
            return Response(answer.status, answer.fields, answer.read_all())
        _check_upgrade(answer, key)
        channel.sock, channel.connected = sock, True
        return _read(channel, end, max_bytes)
    except (websocket.WebSocketException, *BROKEN) as error:
        raise TransportError(f"the command's connection has failed: {error}") from error
    finally:
        watchdog.cancel()
        watchdog.join()
        transport.close_socket(sock)


def _check_upgrade(answer: ResponseReader, key: str) -> None:
    """Raise TransportError unless the server has agreed to a WebSocket with one of the protocols."""
    agreed = {name: header_of(answer.fields, name) for name in ("upgrade", "connection", "sec-websocket-protocol")}
    accept = b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode("ascii")
    if (
        agreed["upgrade"].lower() != "websocket"
        or "upgrade" not in map(str.strip, agreed["connection"].lower().split(","))
        or agreed["sec-websocket-protocol"] not in PROTOCOLS
        or header_of(answer.fields, "sec-websocket-accept") != accept
    ):
        raise TransportError(f"the server does not switch the connection to a WebSocket: {agreed}")


def _read(channel: websocket.WebSocket, end: float, max_bytes: int) -> Executed:
    channels: dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray(), _STATUS: bytearray()}
    while time.monotonic() < end:
        channel.settimeout(min(_READ_SECONDS, max(end - time.monotonic(), 0.01)))
        try:
            message = channel.recv()
        except websocket.WebSocketTimeoutException:
            continue
        except websocket.WebSocketConnectionClosedException:
            if time.monotonic() < end:
                break
            continue
        data = message.encode() if isinstance(message, str) else bytes(message)
        if not data and not channel.connected:
            break
        if data and data[0] in channels:
            kept = channels[data[0]]
            kept += data[1 : 1 + max(max_bytes - len(kept), 0)]
            if data[0] == _STATUS:
                break
    else:
        raise TransportError("the command did not end in time")
    try:
        ending = msgspec.json.decode(channels[_STATUS] or b"{}", type=ExecStatus)
    except UNDECODABLE:
        ending = ExecStatus()
    output, errors = channels[_STDOUT].decode(errors="replace"), channels[_STDERR].decode(errors="replace")
    return Executed(output, errors or ending.message, ending.exit_code)
