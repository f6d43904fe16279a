"""The HTTP/1.1 server of all our endpoints: one thread serves all connections.

Clients that open connections and send little must not block others. So a connection needs no thread before its request
is complete, or while its answer is sent; everything has a deadline; a source has a bounded number of connections; and a
full server ends the connection that has waited longest for its client. The bytes of all requests received, and of all
responses that are not read yet, are bounded, too.
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
"""Seconds for a client to answer that its TLS connection ends."""
_HASTY_GOODBYE_SECONDS = 0.1
"""The same when the server stops: a client with an idle connection in its pool doesn't read, and never answers."""

AnyAnswer = Answer | StreamedAnswer | WebSocketAnswer


class _Streams(asyncio.StreamReaderProtocol):
    """Notes the transport of a connection that was made, and ends a stream whose client has left."""

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
    """Answers requests with `respond`, at one address and at added addresses. `start()` once, then `stop()`.

    Thread-safe. Subclasses define `respond`, and may override the other public methods.
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
        """Listens at once, so that a taken port is detected early. Raises ListenError. Port 0 selects a free port.

        If `listening` is given, it listens on this socket instead of the address, and closes it. `places` decides
        which connections it has; without it, the limits on sources do.
        """
        self.draining = False
        self.log = StrangersLog(logger)
        """For lines that clients cause."""
        self._limits = limits
        if listening is None:
            listening = listen(host, port, name)
        self._port = int(listening.getsockname()[1])
        self._connections = PlacesBySource(limits) if places is None else places  # used only in the loop's thread
        self._lock = threading.Lock()  # guards the three below; never held while waiting
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
        """Return the response to a request. Raises Refusal. It must not block; run long work in an executor."""

    def trusts(self, request: Request) -> bool:  # noqa: ARG002 - subclasses look at it
        """Return whether the head of a request shows that its sender may send a body, and more requests.

        Then its connection keeps its place, if `places` supports that. It is called before the body is read.
        """
        return True

    def begin(self) -> None:  # noqa: B027 - most servers have nothing to prepare
        """Prepare what `respond` needs, in the loop's thread, before the first connection is accepted."""

    async def end_streams(self) -> None:  # noqa: B027 - most streams can be cut off
        """Let the streams end by themselves when the server stops; streams that go on afterwards are cut off."""

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the next connection; None for plain text."""
        return None

    def is_ready(self) -> bool:
        """Return whether clients can be served; until then they are refused."""
        return True

    def refusal(self, refusal: Refusal) -> Answer:
        """Return the response to a refused request."""
        return Answer(f"{refusal}\n".encode(errors="replace"), refusal.status)

    def refused(self, reason: str) -> None:  # noqa: B027 - a server without metrics does nothing
        """Count a refused client or request, or a failure to answer ("error"), for metrics."""

    @property
    def port(self) -> int:
        """The port in use, of the first address."""
        return self._port

    def listen_also(self, listening: socket.socket) -> None:
        """Accept connections on this socket, too, once started.

        It is closed with the server, or now if the server has ended.
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
        """Start to answer. Raises the error of a failed beginning."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            self._stop_accepting()
            raise self._failure

    def drain(self) -> None:
        """Continue to answer, but end each connection with its next response, so that clients reconnect elsewhere."""
        self.draining = True

    def stop(self) -> None:
        """Stop listening; end idle and streaming connections at once, others when answered or after 5 s. Idempotent."""
        self.drain()
        if self._thread.is_alive():
            self.in_loop(self._stopping.set)
            self._thread.join()
        self._stop_accepting()

    def in_loop(self, action: Callable[[], object]) -> bool:
        """Call a function in the loop's thread, soon; return False if the loop has ended or never began."""
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
        under_way = [one.task for one in self._connections if one.task is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=_DRAIN_SECONDS)

    async def streams_ended(self, seconds: float) -> None:
        """Wait for the end of all streamed responses, at most so long. Call it in the loop."""
        streaming = [one.task for one in self._connections if one.streaming and one.task is not None]
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
        """Serve a connection, or close it."""
        if not (self.is_ready() and self._connections.make_room(source, self._loop.time())):
            self.refused("turned_away")
            plain.close()
            return
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(plain, source, self._loop.time())
        self._connections.add(connection)
        connection.task = self._loop.create_task(self._serve(connection))
        # Not in the task: a task that is cancelled before its first step runs no code.
        connection.task.add_done_callback(partial(self._ended, connection))

    def _ended(self, connection: Connection, _task: asyncio.Task[None]) -> None:
        connection.close()
        # The task's traceback refers to the connection, which has the buffers of TLS: don't leave
        # it to the garbage collector.
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
            # A response counts as sent when its last byte was written to the socket, not to a buffer.
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
        """Return when the client has sent a byte: until then its connection costs almost nothing."""
        said = asyncio.Event()
        self._loop.add_reader(plain, said.set)
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                await said.wait()
        finally:
            self._loop.remove_reader(plain)

    async def _converse(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Read and answer requests in turn, until the connection must end."""
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
                del answer  # the transport's buffer has the unsent bytes: keep no second copy
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
        """Return the head of the request that begins with this byte, its response, and whether more bytes follow.

        The body of the request is dropped: it must not stay in memory until the client has read the response.
        """
        head = Request("HEAD" if first == b"H" else "", "", {})  # until it is read
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
        """Return the head of a request with the facts about its sender, and the body if the sender is trusted."""
        trusted = self.trusts(head)
        head = msgspec.structs.replace(head, source=connection.source, trusted=trusted)
        if not trusted:
            return head, b""
        self._connections.trust(connection)
        received = partial(self._received, connection)
        return head, await read_body(head, reader, most=self._limits.body, send=writer.write, received=received)

    def _refuse(self, connection: Connection, refusal: Refusal) -> Answer:
        self.refused(refusal.reason)
        connection.busy = True  # the rest of the request does not count as received
        return self.refusal(refusal)

    async def _open_websocket(
        self,
        connection: Connection,
        request: Request,
        answer: WebSocketAnswer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Open a WebSocket, and close it after the talk. Raises Refusal for a request that opens none."""
        # Imported here: it takes a twentieth of a second, and most servers never open a WebSocket.
        from tfoperator.servers.http.websocket import AcceptedWebSocket

        socket = AcceptedWebSocket(request, reader, writer, subprotocols=answer.subprotocols, most=answer.most)
        connection.streaming = True
        try:
            if not connection.left:
                await answer.talk(socket)
            await socket.close()
        finally:
            socket.abandon()

    async def _send_stream(
        self,
        connection: Connection,
        request: Request,
        answer: StreamedAnswer,
        writer: asyncio.StreamWriter,
        *,
        last: bool,
    ) -> None:
        """Send a response of unknown length, unless the client has left already."""
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
        """Begin to send a response; until its client has read it, its connection may have to end for others."""
        data = encode_head(answer, last=last) + (b"" if is_head else answer.body)
        connection.busy, connection.unsent, connection.idle_since = False, len(data), self._loop.time()
        if self._connections.bound_unsent():
            self.refused("turned_away")
        writer.write(data)

    async def _drained(self, connection: Connection, writer: asyncio.StreamWriter) -> None:
        """Return when the client has read the response. Raises TimeoutError."""
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
