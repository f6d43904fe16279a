"""The HTTP/1.1 server for all endpoints of this project. One thread serves all connections.

Clients that open connections and send little must not block other clients. So a connection needs no thread of its own,
and each wait for a client has a deadline. The number of connections of a source is limited. A full server ends the
connection that has waited longest for its client. There are also limits on the bytes of all received requests together,
and on the bytes of all responses that clients have not read yet (`limits`, `connections`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

import msgspec

from tfoperator.servers.http.accepting import Acceptor
from tfoperator.servers.http.connections import Connection, Places, PlacesBySource
from tfoperator.servers.http.limits import Limits, listen
from tfoperator.servers.http.messages import (
    Answer,
    Refusal,
    Request,
    StreamedAnswer,
    WebSocketAnswer,
    encode_head,
)
from tfoperator.servers.http.strangers_log import StrangersLog
from tfoperator.servers.http.tls_connections import accept_tls
from tfoperator.servers.http.wire import ENDED, discard, drained, read_body, read_head, send_stream

logger = logging.getLogger(__name__)

_DRAIN_SECONDS = 5.0
_GOODBYE_SECONDS = 1.0
"""The seconds that the server waits for a client's confirmation (`close_notify`) that its TLS connection ends."""
_HASTY_GOODBYE_SECONDS = 0.1
"""The seconds that the server waits for the `close_notify` of a client while the server stops. A client does not read
from an idle connection in its pool, so it would never send the `close_notify`.
"""

AnyAnswer = Answer | StreamedAnswer | WebSocketAnswer


class _Streams(asyncio.StreamReaderProtocol):
    """Records in a `Connection` its transport, and later the fact that the client has closed the connection."""

    def __init__(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.WriteTransport)
        self._connection.transport = transport

    def eof_received(self) -> bool | None:
        stays_open = super().eof_received()
        self._connection.left_by_client()
        return stays_open

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connection.left_by_client()


class HttpServer(ABC):
    """A server that responds to requests with the method `respond`. It can listen at several addresses.

    Call `start()` once, then `stop()`. Thread-safe. A subclass defines `respond`, and may override all other public
    methods.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        name: str,
        limits: Limits,
        listening: socket.socket | None = None,
        places: Places | None = None,
    ) -> None:
        """Listen on the address, before `start`, so that an address in use is found early. Raises ListenError.

        With port 0, select a free port. If `listening` is given, the server uses this socket in place of the address,
        and closes the socket when the server ends. `places` decides which connections the server keeps. Without
        `places`, a PlacesBySource with `limits` decides this.
        """
        self.draining = False
        self.log = StrangersLog(logger)
        """The log for lines that clients cause."""
        self._limits = limits
        if listening is None:
            listening = listen(host, port, name)
        self._port = int(listening.getsockname()[1])
        self._connections = PlacesBySource(limits) if places is None else places  # used only in the loop's thread
        self._lock = threading.Lock()  # guards _acceptors, _running and _over; never held while waiting
        self._acceptors = [self._acceptor(listening)]
        self._running = False
        self._over = False
        self._failure: BaseException | None = None  # written by the thread before `_started`
        self._thread = threading.Thread(target=self._run, name=f"http-{name}", daemon=True)
        self._started = threading.Event()
        self._stopping: asyncio.Event
        self._loop: asyncio.AbstractEventLoop

    @abstractmethod
    async def respond(self, request: Request) -> AnyAnswer:
        """Return the response to a request. The method must not block. Run long work in an executor.

        To refuse the request, the method raises Refusal.
        """

    def trusts(self, request: Request) -> bool:  # noqa: ARG002 - subclasses look at it
        """Return whether the headers of a request, such as a token, show that the server should read its body.

        The server calls this method before it reads the body. If the result is False, `respond` gets the request
        without its body, and the connection ends after the response. If the result is True, the server calls
        `Places.trust`.
        """
        return True

    def begin(self) -> None:  # noqa: B027 - most servers have nothing to prepare
        """Prepare objects that `respond` needs, such as locks of asyncio.

        The thread of the event loop calls this method before the server accepts the first connection.
        """

    async def end_streams(self) -> None:  # noqa: B027 - most streams can be cut off
        """Wait for streamed responses and WebSockets that should end by themselves, when the server stops.

        After this method, the server ends all streams and WebSockets that are still open.
        """

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for the next connection, or None for a connection without TLS."""
        return None

    def is_ready(self) -> bool:
        """Return whether the server can serve clients. While it returns False, the server closes new connections."""
        return True

    def refusal(self, refusal: Refusal) -> Answer:
        """Return the response to a request for which a Refusal was raised."""
        return Answer(f"{refusal}\n".encode(errors="replace"), refusal.status)

    def refused(self, reason: str) -> None:  # noqa: B027 - a server without metrics does nothing
        """Count a refusal for the metrics. `reason` is `turned_away` for a connection that the server has ended or not
        accepted, `error` for an unexpected exception, or the reason of a Refusal.
        """

    @property
    def port(self) -> int:
        """The port of the first address. If the constructor got port 0, this is the port that it has selected."""
        return self._port

    def listen_also(self, listening: socket.socket) -> None:
        """Accept connections on this socket, too, after the server has started.

        The socket is closed together with the server. If the server has already ended, the socket is closed now.
        """
        listening.setblocking(False)
        acceptor = self._acceptor(listening)
        with self._lock:
            if not self._over:
                self._acceptors.append(acceptor)
                if self._running:
                    self._loop.call_soon_threadsafe(acceptor.start, self._loop)
                return
        acceptor.stop()

    def start(self) -> None:
        """Start to respond to requests, in another thread. Raises the error of `begin` if it fails."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            self._stop_accepting()
            raise self._failure

    def drain(self) -> None:
        """Continue to respond, but end each connection after its next response.

        So clients connect again, and a load balancer can send them to another server.
        """
        self.draining = True

    def stop(self) -> None:
        """Stop listening, end all connections, and wait for the end of the thread. Idempotent.

        Idle connections end at once. Streams end when `end_streams` has returned. All other connections end after their
        response, or after 5 s.
        """
        self.drain()
        if self._thread.is_alive():
            self.in_loop(self._stopping.set)
            self._thread.join()
        self._stop_accepting()

    def in_loop(self, action: Callable[[], object]) -> bool:
        """Call a function soon in the thread of the event loop. Return False if the loop has ended or never started."""
        if not self._started.is_set() or self._failure is not None:
            return False
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            return False
        return True

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._main())
        except BaseException as error:
            if self._started.is_set():
                raise
            self._failure = error
            self._started.set()

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self.begin()
        self._started.set()
        with self._lock:
            self._running = True
            for acceptor in self._acceptors:
                acceptor.start(self._loop)
        await self._stopping.wait()
        self._stop_accepting()
        await self.end_streams()
        for connection in self._connections:
            if connection.streaming or not (connection.busy or connection.unsent):
                self._connections.end(connection)
        under_way = [connection.task for connection in self._connections if connection.task is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=_DRAIN_SECONDS)

    async def streams_ended(self, seconds: float) -> None:
        """Wait until all streamed responses and WebSockets have ended, for at most `seconds`.

        Call this method in the event loop.
        """
        streaming = [
            connection.task for connection in self._connections if connection.streaming and connection.task is not None
        ]
        if streaming:
            await asyncio.wait(streaming, timeout=seconds)

    # Accepting connections.

    def _acceptor(self, listening: socket.socket) -> Acceptor:
        places = self._connections
        return Acceptor(listening, self._let_in, knows=places.knows, out_of_files=places.out_of_files)

    def _stop_accepting(self) -> None:
        with self._lock:
            self._over, acceptors = True, tuple(self._acceptors)
        for acceptor in acceptors:
            acceptor.stop()

    def _let_in(self, plain: socket.socket, source: str) -> None:
        """Serve a connection. Close it if the server is not ready, or can't make room for it."""
        if not (self.is_ready() and self._connections.make_room(source, self._loop.time())):
            self.refused("turned_away")
            plain.close()
            return
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(plain, source, self._loop.time())
        self._connections.add(connection)
        connection.task = self._loop.create_task(self._serve(connection))
        # A callback, and not code in `_serve`: a task that is cancelled before its first step runs no code.
        connection.task.add_done_callback(partial(self._ended, connection))

    def _ended(self, connection: Connection, _task: asyncio.Task[None]) -> None:
        connection.close()
        # The task and the connection refer to each other. Break this circle, so that the TLS buffers are freed now, and
        # not by the next garbage collection.
        connection.task = connection.transport = None
        self._connections.forget(connection)

    # Answering requests.

    async def _serve(self, connection: Connection) -> None:
        limits = self._limits
        reader = asyncio.StreamReader(limit=limits.head)
        protocol = _Streams(connection, reader)
        try:
            await self._begins(connection.plain)
            context = self.context()
            connection.handed_over = True
            if context is None:
                await self._loop.connect_accepted_socket(lambda: protocol, connection.plain)
            else:
                await accept_tls(
                    protocol,
                    connection.plain,
                    context,
                    handshake_seconds=limits.handshake_seconds,
                    shutdown_seconds=_GOODBYE_SECONDS,
                )
            assert connection.transport is not None, "a connection that was made has a transport"
            # With these limits, `drain` returns only after the last byte was written to the socket, not to a buffer.
            connection.transport.set_write_buffer_limits(high=1, low=0)
            writer = asyncio.StreamWriter(connection.transport, protocol, reader, self._loop)
            await self._converse(connection, reader, writer)
        except ENDED as error:
            self.log.debug("connection from %s: %s", connection.source, error)
        except Exception:
            self.refused("error")
            self.log.exception("a request from %s failed", connection.source, source=connection.source)
        finally:
            connection.close()

    async def _begins(self, plain: socket.socket) -> None:
        """Wait until the client has sent a byte. Until then, the connection needs no buffers and no TLS.

        Raises TimeoutError after `Limits.request_seconds`.
        """
        readable = asyncio.Event()
        self._loop.add_reader(plain, readable.set)
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                await readable.wait()
        finally:
            self._loop.remove_reader(plain)

    async def _converse(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Read requests and send their responses, one after the other, until the connection must end."""
        limits = self._limits
        seconds, last = limits.request_seconds, False
        while not last:
            async with asyncio.timeout(seconds):
                first = await reader.readexactly(1)
            head, answer, unread = await self._answer(connection, first, reader, writer)
            last = unread or self.draining or not limits.idle_seconds or head.last or not head.trusted
            if isinstance(answer, WebSocketAnswer):
                try:
                    await self._open_websocket(connection, head, answer, reader, writer)
                    break
                except Refusal as refusal:
                    answer, last, unread = self._refuse(connection, refusal), True, True
            if isinstance(answer, StreamedAnswer):
                await self._send_stream(connection, head, answer, writer, last=last)
                last = last or self.draining
            else:
                last = last or answer.last
                self._write(connection, writer, answer, last=last, is_head=head.method == "HEAD")
                del answer  # the transport's buffer has the unsent bytes, so free this second copy
                await self._drained(connection, writer)
            seconds = limits.idle_seconds
            if unread:
                await discard(reader, limits.body if head.trusted else 0, limits.request_seconds)
        writer.close()
        async with asyncio.timeout(_HASTY_GOODBYE_SECONDS if self._stopping.is_set() else _GOODBYE_SECONDS):
            await writer.wait_closed()

    async def _answer(
        self, connection: Connection, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[Request, AnyAnswer, bool]:
        """Return the request that begins with the byte `first`, without its body, and the response to it.

        Also return whether the connection has unread bytes of the request. The returned request has no body, so that
        the body does not stay in memory until the client has read the response.
        """
        head = Request("HEAD" if first == b"H" else "", "", {})  # a placeholder until the head was read
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                head = await read_head(first, reader)
                head, body = await self._admit(connection, head, reader, writer)
            connection.busy = True
            answer = await self.respond(msgspec.structs.replace(head, body=body) if body else head)
            if isinstance(answer, StreamedAnswer) or (isinstance(answer, Answer) and answer.status < 400):
                self._connections.answered(connection)
            return head, answer, head.has_body and not head.trusted
        except Refusal as refusal:
            return head, self._refuse(connection, refusal), True
        finally:
            connection.received = 0

    async def _admit(
        self, connection: Connection, head: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[Request, bytes]:
        """Return the request with the fields `source` and `trusted` set, and its body.

        If the request is not trusted, do not read the body, and return b"" in its place.
        """
        trusted = self.trusts(head)
        head = msgspec.structs.replace(head, source=connection.source, trusted=trusted)
        if not trusted:
            return head, b""
        self._connections.trust(connection)
        received = partial(self._received, connection)
        return head, await read_body(head, reader, most=self._limits.body, send=writer.write, received=received)

    def _refuse(self, connection: Connection, refusal: Refusal) -> Answer:
        self.refused(refusal.reason)
        connection.busy = True  # so `bound_received` does not end this connection before the client has the refusal
        return self.refusal(refusal)

    async def _open_websocket(
        self,
        connection: Connection,
        request: Request,
        answer: WebSocketAnswer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Open a WebSocket, and close it after `talk` has returned.

        Raises Refusal if the request does not open a WebSocket.
        """
        # Imported here: it takes a twentieth of a second, and most servers never open a WebSocket.
        from tfoperator.servers.http.websocket import AcceptedWebSocket

        try:
            socket = AcceptedWebSocket(request, reader, writer, subprotocols=answer.subprotocols, most=answer.most)
            connection.streaming = True
            try:
                if not connection.left:
                    await answer.talk(socket)
                await socket.close()
            finally:
                socket.abandon()
        finally:
            answer.over()

    async def _send_stream(
        self,
        connection: Connection,
        request: Request,
        answer: StreamedAnswer,
        writer: asyncio.StreamWriter,
        *,
        last: bool,
    ) -> None:
        """Send a response of unknown length, unless the client has already left."""
        connection.streaming = True
        try:
            if not connection.left:
                await send_stream(answer, request, writer, last=last, seconds=self._reading_seconds())
        finally:
            answer.over()
        connection.streaming = connection.busy = False
        connection.idle_since = self._loop.time()

    def _write(
        self, connection: Connection, writer: asyncio.StreamWriter, answer: Answer, *, last: bool, is_head: bool
    ) -> None:
        """Begin to send a response.

        While the client reads the response, the connection is not `busy`. So the server may end it for a new
        connection.
        """
        data = encode_head(answer, last=last) + (b"" if is_head else answer.body)
        connection.busy, connection.unsent, connection.idle_since = False, len(data), self._loop.time()
        if self._connections.bound_unsent():
            self.refused("turned_away")
        writer.write(data)

    async def _drained(self, connection: Connection, writer: asyncio.StreamWriter) -> None:
        """Wait until the client has read the response. Raises TimeoutError after `Limits.request_seconds`.

        With `Limits.waits_for_readers`, there is no time limit.
        """
        try:
            await drained(writer, self._reading_seconds())
        finally:
            connection.unsent = 0
        connection.idle_since = self._loop.time()

    def _reading_seconds(self) -> float | None:
        return None if self._limits.waits_for_readers else self._limits.request_seconds

    def _received(self, connection: Connection, size: int) -> None:
        connection.received = size
        if self._connections.bound_received():
            self.refused("turned_away")
