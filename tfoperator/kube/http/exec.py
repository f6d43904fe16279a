"""Runs one command in a container through an API server's `pods/exec`, over a WebSocket.

The protocol is `v5.channel.k8s.io` (or v4): each message is a channel byte followed by data. The command's
stdin is closed from the start, and its output is bounded in bytes and in time.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec
import websocket

from tfoperator.kube.errors import UNDECODABLE, StatusDetails, TransportError
from tfoperator.kube.http.answer import Response
from tfoperator.kube.http.transport import Headers, Transport
from tfoperator.kube.http.wire import shut_down

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _STDERR, _STATUS = 1, 2, 3
_EXIT_CODE = "ExitCode"
_READ_SECONDS = 1.0  # of one read, to notice the deadline


class Executed(msgspec.Struct, frozen=True):
    """The output of a command and its exit code, which is None if it is unknown."""

    output: str
    errors: str
    exit_code: int | None


class Ending(msgspec.Struct, frozen=True):
    """The last message: a `meta/v1 Status` whose `status` is Success or Failure."""

    status: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def exit_code(self) -> int | None:
        """The command's exit code; None if it could not be run, or its end is unknown."""
        if self.status == "Success":
            return 0
        for cause in self.details.causes if self.details is not None else ():
            if cause.reason == _EXIT_CODE and cause.message.isascii() and cause.message.isdigit():
                return int(cause.message[:9])
        return None


def execute(
    transport: Transport, target: str, headers: Headers, *, certificate: Any, timeout: float, max_bytes: int
) -> Executed | Response:
    """Run the command that `target` names; return a Response if the server refuses. Raises TransportError.

    `timeout` is in seconds, for the whole run. Output beyond `max_bytes` is dropped.
    """
    end = time.monotonic() + timeout
    sock = transport.open_socket(certificate)
    # The library has no deadline for a whole head or message, only for each read.
    watchdog = threading.Timer(timeout, shut_down, (sock,))
    watchdog.start()
    channel = websocket.WebSocket()
    try:
        channel.connect(  # type: ignore[no-untyped-call]  # the library does not annotate this function
            f"ws://{transport.host}{transport.prefix}{target}",
            socket=sock,
            header=[f"{name}: {value}" for name, value in headers],
            subprotocols=list(PROTOCOLS),
            suppress_origin=True,
            redirect_limit=0,
            timeout=min(timeout, 30.0),
        )
        return _read(channel, end, max_bytes)
    except websocket.WebSocketBadStatusException as error:
        fields = [(name.encode(), str(value).encode()) for name, value in (error.resp_headers or {}).items()]
        return Response(error.status_code, fields, error.resp_body or b"")
    except (websocket.WebSocketException, OSError) as error:
        raise TransportError(f"the command's connection broke: {error}") from error
    finally:
        watchdog.cancel()
        watchdog.join()
        transport.close_socket(sock)


def _read(channel: websocket.WebSocket, end: float, max_bytes: int) -> Executed:
    told: dict[int, bytearray] = {_STDOUT: bytearray(), _STDERR: bytearray(), _STATUS: bytearray()}
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
        if data and data[0] in told:
            kept = told[data[0]]
            kept += data[1 : 1 + max(max_bytes - len(kept), 0)]
            if data[0] == _STATUS:
                break
    else:
        raise TransportError("the command did not end in time")
    try:
        ending = msgspec.json.decode(told[_STATUS] or b"{}", type=Ending)
    except UNDECODABLE:
        ending = Ending()
    output, errors = told[_STDOUT].decode(errors="replace"), told[_STDERR].decode(errors="replace")
    return Executed(output, errors or ending.message, ending.exit_code)
