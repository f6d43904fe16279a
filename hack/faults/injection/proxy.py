"""An HTTP proxy between operator and API server that injects faults into requests, answers and watch events.

It listens on loopback without TLS or credentials and brings the server's own with it, so that an operator needs none
and both sides of a connection can be broken at any byte. It lives in a thread of its own and keeps no state of a
cluster but old lists, which it can serve again as a lagging API server would.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qs

import aiohttp
from aiohttp import web

from hack.faults.injection.answers import AFTER, EVENT_ERRORS, REASONS, drop, hang_up, status, status_body, truncated
from hack.faults.injection.injector import EventFault, Fault, FaultInjector, Request, RequestFault
from hack.faults.injection.old_lists import OldLists
from hack.faults.injection.sockets import Sockets
from tfoperator.local.apiserver.http.listener import listen_on_loopback

_START_SECONDS = 10.0
_SHUTDOWN_SECONDS = 0.5
_ACCEPT_TURNS = 3
_DROPPED_HEADERS = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host", "authorization"}
)


def parse_request(method: str, path: str, query: str) -> Request:
    """Parse a path of the Kubernetes API. Paths outside of it have no plural."""
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    plural, name, subresource = (*rest, "", "", "")[:3]
    watch = parse_qs(query).get("watch", ["false"])[0] in ("true", "1")
    return Request(method, plural, name, subresource, watch)


class FaultProxy:
    """Start it, point clients to `url`, stop it. `cut()` and `restore()` are the network failing as a whole.

    Methods may be called from any thread but the proxy's own; they wait until they have taken effect.
    """

    def __init__(self, upstream: str, token: str, injector: FaultInjector, *, certificate: bytes) -> None:
        """`certificate` (PEM) is the authority by which the upstream (https) is trusted."""
        self._upstream = upstream.rstrip("/")
        self._token = token
        self._injector = injector
        self._context = ssl.create_default_context(cadata=certificate.decode())
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._failure: BaseException | None = None
        self._port = 0
        # The proxy's thread alone uses what follows.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._site: web.SockSite | None = None
        self._listener: socket.socket | None = None
        self._old_lists = OldLists()
        self._streams: set[aiohttp.ClientResponse] = set()
        self._ending: set[aiohttp.ClientResponse] = set()

    @property
    def url(self) -> str:
        """Where it listens; the same for its whole life."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        if not self._ready.wait(_START_SECONDS) or self._failure is not None:
            raise RuntimeError("the fault proxy does not start") from self._failure
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._end is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_START_SECONDS)

    def cut(self) -> None:
        """Reset all connections and refuse new connections."""
        self._call(self._cut)

    def restore(self) -> None:
        """Listen again after `cut()`."""
        self._call(self._listen)

    def close_watches(self) -> None:
        """End every watch cleanly, as API servers do every few minutes."""
        self._call(self._close_streams)

    def _call(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(action(), self._loop).result(_START_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - `__enter__` raises the error
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        sockets = Sockets()
        connector = aiohttp.TCPConnector(limit=0, ssl=self._context, socket_factory=sockets.make)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        headers = {"Authorization": f"Bearer {self._token}"}
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as self._session:
            app = web.Application(client_max_size=16 << 20)
            app.router.add_route("*", "/{path:.*}", self._handle)
            self._runner = web.AppRunner(
                app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS
            )
            await self._runner.setup()
            await self._listen()
            self._ready.set()
            await self._end.wait()
            await self._cut()
            await self._runner.cleanup()
            await connector.close(abort_ssl=True)
        await sockets.hang_up()

    async def _listen(self) -> None:
        if self._site is None:
            assert self._runner is not None
            self._listener = listen_on_loopback(self._port)
            self._port = self._listener.getsockname()[1]
            self._site = web.SockSite(self._runner, self._listener)
            await self._site.start()

    async def _cut(self) -> None:
        site, self._site = self._site, None
        listener, self._listener = self._listener, None
        assert self._loop is not None
        if listener is not None:
            # If the server closes a moment after it has accepted a connection, Python 3.11 forgets it, unclosed. So
            # stop accepting first, and give accepted connections these turns of the loop to be set up.
            self._loop.remove_reader(listener)
            for _ in range(_ACCEPT_TURNS):
                await asyncio.sleep(0)
        # Python 3.12 waits in `site.stop()` for connections to end, so they end first and once more afterwards.
        self._abort_all()
        if site is not None:
            await site.stop()
        self._abort_all()

    def _abort_all(self) -> None:
        assert self._runner is not None
        server = self._runner.server
        for connection in list(server.connections) if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()

    async def _close_streams(self) -> None:
        self._ending |= self._streams
        for answer in list(self._streams):
            answer.close()

    # One request.

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        request = parse_request(incoming.method, incoming.path, incoming.query_string)
        fault = self._injector.on_request(request)
        if self._injector.no_watch_list and "sendInitialEvents" in incoming.query:
            return status(422, "Invalid", "sendInitialEvents is forbidden: this server does not know it")
        if fault is not None:
            answer = await self._before(incoming, request, fault)
            if answer is not None:
                return answer
        try:
            return await self._forward(incoming, request, fault)
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return drop(incoming)

    async def _before(self, incoming: web.Request, request: Request, fault: Fault) -> web.StreamResponse | None:
        """The answer, if the request never reaches the server."""
        if fault.kind == RequestFault.DELAY:
            await asyncio.sleep(fault.seconds)
        elif fault.kind == RequestFault.DROP_BEFORE:
            return drop(incoming)
        elif fault.kind == RequestFault.STALE:
            body = None if request.watch else self._old_lists.find(incoming)
            return None if body is None else web.Response(body=body, content_type="application/json")
        elif fault.kind in REASONS and fault.kind not in AFTER:
            code, reason = REASONS[RequestFault(fault.kind)]
            headers = {"Retry-After": str(int(fault.seconds))} if fault.kind == RequestFault.TOO_MANY else {}
            return status(code, reason, f"injected fault: {fault.kind}", headers)
        return None

    async def _forward(self, incoming: web.Request, request: Request, fault: Fault | None) -> web.StreamResponse:
        assert self._session is not None
        headers = {name: value for name, value in incoming.headers.items() if name.lower() not in _DROPPED_HEADERS}
        body = await incoming.read() if incoming.can_read_body else None
        target = f"{self._upstream}{incoming.raw_path}"
        async with self._session.request(incoming.method, target, headers=headers, data=body) as answer:
            if request.watch and answer.status == 200:
                return await self._stream(incoming, request, answer)
            data = await answer.read()
        if request.reads and not request.name and answer.status == 200:
            self._old_lists.add(incoming, data)
        kind = fault.kind if fault is not None else ""
        if kind == RequestFault.DROP_AFTER:
            return drop(incoming)
        if kind in AFTER:
            code, reason = REASONS[RequestFault(kind)]
            return status(code, reason, f"injected fault: {kind}")
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in _DROPPED_HEADERS}
        if kind == RequestFault.TRUNCATE and len(data) > 1:
            return await truncated(incoming, answer.status, kept, data)
        return web.Response(status=answer.status, body=data, headers=kept)

    # Watches.

    async def _stream(
        self, incoming: web.Request, request: Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(incoming)
        self._streams.add(answer)
        try:
            pending = b""
            async for chunk in answer.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    if not await self._pass_on(incoming, request, response, line + b"\n"):
                        return response
            await response.write_eof()
        except (aiohttp.ClientError, ConnectionError):
            if answer in self._ending:
                await response.write_eof()
            else:
                drop(incoming)
        finally:
            self._streams.discard(answer)
            self._ending.discard(answer)
        return response

    async def _pass_on(
        self, incoming: web.Request, request: Request, response: web.StreamResponse, line: bytes
    ) -> bool:
        """Send one event, or what a fault makes of it; False if that was the end of the watch."""
        fault = self._injector.on_event(request)
        kind = "" if fault is None else fault.kind
        if fault is not None and kind in (EventFault.DELAY, EventFault.SILENCE):
            await self._pause(fault.seconds)
        elif kind == EventFault.LOSE:
            # A lost bookmark has no effect, but the bookmark that ends the initial events never comes twice.
            if b'"type":"BOOKMARK"' in line[:200]:
                await response.write(line)
            return True
        elif kind == EventFault.TRUNCATE:
            await response.write(line[: len(line) // 2])
            hang_up(incoming)
            return False
        elif kind == EventFault.GARBAGE:
            await response.write(b'{"type":"ADDED","object":\xff' + line[: len(line) // 3] + b"\n")
            return True
        elif kind in EVENT_ERRORS:
            code, reason = EVENT_ERRORS[EventFault(kind)]
            status = status_body(code, reason, f"injected fault: {kind}")
            await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
            await response.write_eof()
            return False
        await response.write(line)
        if kind == EventFault.CLOSE:
            await response.write_eof()
            return False
        if kind == EventFault.ABORT:
            drop(incoming)
            return False
        return True

    async def _pause(self, seconds: float) -> None:
        assert self._loop is not None
        end = self._loop.time() + seconds
        while self._loop.time() < end and not self._injector.is_stopped:
            await asyncio.sleep(0.02)
