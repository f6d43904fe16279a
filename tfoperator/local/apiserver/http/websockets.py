"""WebSockets of watches and logs, for clients that run in a browser, such as Headlamp.

The messages have the same form as the messages of kube-apiserver. A watch sends each event as a text message. A log is
sent as binary messages, or, with the subprotocol `base64.binary.k8s.io`, as text messages in base64. All functions run
in the server's event loop.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlsplit

from tfoperator.local.apiserver.http.api_request import ApiRequest
from tfoperator.servers.http.messages import Answer, WebSocket, WebSocketAnswer

_BASE64 = "base64.binary.k8s.io"
_LOG_PROTOCOLS = ("binary.k8s.io", _BASE64)


def opens_websocket(request: ApiRequest) -> bool:
    """Return whether the client requests to change from HTTP to a WebSocket."""
    headers = request.headers
    return headers.get("upgrade", "").lower() == "websocket" and "upgrade" in headers.get("connection", "").lower()


def refusal_of_watch(request: ApiRequest) -> Answer | None:
    """Return an answer that refuses a WebSocket for a watch. Return None if the server accepts the WebSocket.

    As in kube-apiserver, the client must send the header Origin, which browsers do, and at most one subprotocol.
    """
    if not _is_url(request.headers.get("origin", "")):
        return _refusal(HTTPStatus.FORBIDDEN)
    return _refusal(HTTPStatus.BAD_REQUEST) if len(_offered(request)) > 1 else None


def watch_answer(request: ApiRequest, lines: AsyncIterator[bytes], over: Callable[[], object]) -> WebSocketAnswer:
    """Return an answer that opens the WebSocket of a watch. The server sends each line of `lines` as a message.

    The server accepts any name of a subprotocol. `over` is called when the WebSocket has ended.
    """

    async def send(socket: WebSocket) -> None:
        async for data in lines:
            for line in data.splitlines(keepends=True):
                await socket.send_text(line)

    async def talk(socket: WebSocket) -> None:
        await while_open(socket, send(socket))

    return WebSocketAnswer(talk, _offered(request), over=over)


def log_protocol(request: ApiRequest) -> str | None:
    """Return the first of the client's subprotocols that the server supports for logs.

    Return "" if the client requests no subprotocol. Return None if the server supports none of the requested
    subprotocols.
    """
    offered = _offered(request)
    return next((name for name in offered if name in _LOG_PROTOCOLS), None) if offered else ""


def refusal_of_log() -> Answer:
    """Return the answer that refuses a WebSocket for a log.

    The reason is that the server supports none of the client's subprotocols.
    """
    return _refusal(HTTPStatus.FORBIDDEN)


def log_answer(chunks: AsyncIterator[bytes], protocol: str) -> WebSocketAnswer:
    """Return an answer that opens the WebSocket of a log. The server sends an empty message, and then `chunks`."""
    as_text = protocol == _BASE64

    async def send(socket: WebSocket) -> None:
        await _piece(socket, b"", as_text=as_text)
        async for chunk in chunks:
            if chunk:
                await _piece(socket, chunk, as_text=as_text)

    async def talk(socket: WebSocket) -> None:
        await while_open(socket, send(socket))

    return WebSocketAnswer(talk, (protocol,) if protocol else ())


async def _piece(socket: WebSocket, data: bytes, *, as_text: bool) -> None:
    await (socket.send_text(b64encode(data)) if as_text else socket.send(data))


async def while_open(socket: WebSocket, work: Awaitable[None]) -> None:
    """Do the work until it ends or the client disconnects. Raises the exception of the work."""
    await first_of(work, _until_closed(socket))


async def _until_closed(socket: WebSocket) -> None:
    """Ignore the client's messages, until the client disconnects."""
    async for _ in socket:
        pass


async def first_of(*waiting: Awaitable[None]) -> int:
    """Wait until the first task ends, and cancel the other tasks.

    Return the index of the first task. Raises the exception of this task, but no ConnectionError, which only means that
    the client has disconnected.
    """
    tasks = [asyncio.ensure_future(awaitable) for awaitable in waiting]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ended = next(index for index, task in enumerate(tasks) if task.done())
        with suppress(ConnectionError):  # the client is gone
            tasks[ended].result()
        return ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _offered(request: ApiRequest) -> tuple[str, ...]:
    names = request.headers.get("sec-websocket-protocol", "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def _is_url(origin: str) -> bool:
    try:
        return bool(urlsplit(origin).scheme) or origin.startswith("/")
    except ValueError:
        return False


def _refusal(status: HTTPStatus) -> Answer:
    """Return a refusal as kube-apiserver sends it: without a body. The server then closes the connection."""
    return Answer(b"", status, last=True)
