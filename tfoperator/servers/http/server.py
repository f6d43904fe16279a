"""The HTTP/1.1 server of the operator's endpoints and of its webhook: one thread serves all connections.

Clients that open connections and send little must not block others. So no connection holds a thread before its request
is complete, nor while its answer is sent; everything has a deadline; a source has a bounded number of connections; and
a full server ends the connection that has waited longest for its client. The bytes of all requests received, and of all
responses that are not read yet, are bounded, too.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from functools import partial
from http import HTTPStatus

import msgspec

from tfoperator.servers.http.accepting import Acceptor
from tfoperator.servers.http.connections import Connection, Connections
from tfoperator.servers.http.limits import Limits, listen
from tfoperator.servers.http.messages import MAX_HEAD, Answer, Refusal, Request, StreamedAnswer, encode_head
from tfoperator.servers.http.strangers_log import StrangersLog
from tfoperator.servers.http.tls_connections import accept_tls
from tfoperator.servers.http.wire import ENDED, discard, read_request, send_stream

logger = logging.getLogger(__name__)

_DRAIN_SECONDS = 5.0
_GOODBYE_SECONDS = 1.0
"""Seconds for a client to answer that its TLS connection ends."""


class _Streams(asyncio.StreamReaderProtocol):
    """Notes the transport of a connection that was made."""

    def __init__(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.WriteTransport)
        self._connection.transport = transport


class HttpServer(ABC):
    """Answers requests with `respond`, at one address and at added ones. `start()` once, then `stop()`.

    Thread-safe. Subclasses define `respond`, and may override the other public methods.
    """

    def __init__(self, host: str, port: int, *, name: str, limits: Limits) -> None:
        """Listens at once, so that a taken port is detected early. Raises ListenError. Port 0 selects a free one."""
        self.draining = False
        self.log = StrangersLog(logger)
        """For what clients cause."""
        self._limits = limits
        listening = listen(host, port, name)
        self._port = int(listening.getsockname()[1])
        self._connections = Connections(limits)  # used only in the loop's thread
        self._lock = threading.Lock()  # guards the three below; never held while waiting
        self._acceptors = [Acceptor(listening, self._let_in, self._connections.knows)]
        self._running = False
        self._over = False
        self._thread = threading.Thread(target=self._run, name=f"http-{name}", daemon=True)
        self._started = threading.Event()
        self._stopping: asyncio.Event
        self._loop: asyncio.AbstractEventLoop

    @abstractmethod
    async def respond(self, request: Request) -> Answer | StreamedAnswer:
        """Return the response to a request. Raises Refusal. It must not block; run long work in an executor."""

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
        """Accept connections on this socket, too, once started. It is closed with the server, or now if that ended."""
        listening.setblocking(False)
        acceptor = Acceptor(listening, self._let_in, self._connections.knows)
        with self._lock:
            if not self._over:
                self._acceptors.append(acceptor)
                if self._running:
                    self._loop.call_soon_threadsafe(acceptor.start, self._loop)
                return
        acceptor.stop()

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()
        self._started.wait()

    def drain(self) -> None:
        """Continue to answer, but end each connection with its next response, so that clients reconnect elsewhere."""
        self.draining = True

    def stop(self) -> None:
        """Stop listening; end idle and streaming connections at once, others when answered or after 5 s. Idempotent."""
        self.drain()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._stop_accepting()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        with self._lock:
            self._running = True
            for acceptor in self._acceptors:
                acceptor.start(self._loop)
        await self._stopping.wait()
        self._stop_accepting()
        for connection in self._connections:
            if connection.streaming or not (connection.busy or connection.unsent):
                self._connections.end(connection)
        under_way = [one.task for one in self._connections if one.task is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=_DRAIN_SECONDS)

    # Accepting connections.

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
        # Not in the task: one that is cancelled before its first step runs no code.
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
        reader = asyncio.StreamReader(limit=MAX_HEAD)
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
        limits, seconds, last, refused = self._limits, self._limits.request_seconds, False, False
        while not last:
            async with asyncio.timeout(seconds):
                first = await reader.readexactly(1)
            is_head = first == b"H"  # of all methods, refused ones included
            answer, last, refused = await self._answer(connection, first, reader, writer)
            if isinstance(answer, StreamedAnswer):
                connection.streaming = True
                await send_stream(answer, reader, writer, limits.request_seconds, head_only=is_head)
                break
            self._write(connection, writer, encode_head(answer, last=last) + (b"" if is_head else answer.body))
            del answer  # what is not sent yet is in the transport's buffer, once
            await self._drained(connection, writer)
            seconds = limits.idle_seconds
            if refused:
                await discard(reader)
        writer.close()
        async with asyncio.timeout(1.0):
            await writer.wait_closed()

    async def _answer(
        self, connection: Connection, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[Answer | StreamedAnswer, bool, bool]:
        """Return the response to the request that begins with this byte, whether it is the last, and a refusal.

        The request is dropped: its body must not stay beside the response, until the client has read that.
        """
        limits = self._limits
        try:
            async with asyncio.timeout(limits.request_seconds):
                request = await read_request(
                    first, reader, writer, most=limits.body, received=partial(self._received, connection)
                )
            connection.busy = True
            answer = await self.respond(msgspec.structs.replace(request, source=connection.source))
            if isinstance(answer, StreamedAnswer) or answer.status < HTTPStatus.BAD_REQUEST:
                self._connections.answered(connection)
            return answer, self.draining or not limits.idle_seconds or request.last, False
        except Refusal as refusal:
            self.refused(refusal.reason)
            connection.busy = True  # the rest of the request does not count as received
            return self.refusal(refusal), True, True
        finally:
            connection.received = 0

    def _write(self, connection: Connection, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Begin to send a response; until its client has read it, its connection may have to end for others."""
        connection.busy, connection.unsent, connection.idle_since = False, len(data), self._loop.time()
        if self._connections.bound_unsent():
            self.refused("turned_away")
        writer.write(data)

    async def _drained(self, connection: Connection, writer: asyncio.StreamWriter) -> None:
        """Return when the client has read the response. Raises TimeoutError.

        The loop has a turn in any case: with requests that have all been received there would be none, so their
        connection could not be seen to be lost. asyncio logs a line for each response after that.
        """
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                await writer.drain()
        finally:
            connection.unsent = 0
        connection.idle_since = self._loop.time()

    def _received(self, connection: Connection, size: int) -> None:
        connection.received = size
        if self._connections.bound_received():
            self.refused("turned_away")
