"""Accepts the connections of a listening socket.

It continues even after the process has used all its file descriptors.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections import deque
from collections.abc import Callable

from tfoperator.servers.http.limits import source_of

logger = logging.getLogger(__name__)

_ACCEPTED_PER_TURN = 32
_RETRY_SECONDS = 0.1
_LET_IN_PER_TURN = 8
_PAUSE_SECONDS = 0.005
"""If a server is full, a new connection ends the oldest connection. So the rate of new connections is limited to 1,600
a second. With this limit, a full set of 128 connections lasts for 80 ms, and for 16 turns of the loop, however busy the
loop is. So if a client sends its request at once, the server reads the request before the connection is the oldest. All
further connections wait here. Sources that had no answer yet get only a quarter of the turns, even if the remaining
turns are free. A TLS handshake costs such a source nothing, but costs the server a millisecond.
"""
_MOST_WAITING = 1024
"""The maximum number of connections that wait here. It is as many as in the kernel's queue for a socket. In the
kernel's queue, a probe would wait for seconds behind 1,000 connections of unknown sources.
"""


class Acceptor:
    """Passes each connection to `let_in`, together with its source.

    Connections of sources for which `knows` returns true come first. `out_of_files` is called when no connection can be
    accepted. It should close connections if that is possible.

    Call all methods in the thread of the loop. If the object was never started, any thread may call `stop()`. The
    object owns the socket.
    """

    def __init__(
        self,
        listening: socket.socket,
        let_in: Callable[[socket.socket, str], None],
        knows: Callable[[str], bool],
        out_of_files: Callable[[], None] = lambda: None,
    ) -> None:
        self._socket = listening
        self._let_in = let_in
        self._knows = knows
        self._out_of_files = out_of_files
        self._known: deque[tuple[socket.socket, str]] = deque()
        self._strangers: deque[tuple[socket.socket, str]] = deque()
        # All servers of a process together leave half of its open files to others.
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_waiting = _MOST_WAITING if files == resource.RLIM_INFINITY else min(_MOST_WAITING, files // 10)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._next: asyncio.TimerHandle | None = None
        self._failing = False
        self._stopped = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to accept connections, unless `stop` was called meanwhile."""
        if not self._stopped:
            self._loop = loop
            self._listen(loop)

    def stop(self) -> None:
        """Stop accepting, and close the socket and the connections that wait. Idempotent."""
        self._stopped = True
        if self._loop is not None and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
        for timer in (self._retry, self._next):
            if timer is not None:
                timer.cancel()
        for plain, _ in (*self._known, *self._strangers):
            plain.close()
        self._known.clear()
        self._strangers.clear()
        self._socket.close()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self._socket, self._accept, loop)

    def _accept(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accept waiting connections.

        It does not accept all of them at once, because this would block the loop for the open connections.
        """
        for _ in range(_ACCEPTED_PER_TURN):
            if len(self._known) + len(self._strangers) >= self._most_waiting:
                self._pause(loop, _PAUSE_SECONDS)
                break
            try:
                plain, address = self._socket.accept()
            except BlockingIOError:
                self._failing = False
                break
            except OSError as error:
                # Usually: too many open files. The backlog is accepted when there are fewer.
                if not self._failing:
                    logger.warning("can't accept connections at the moment: %s", error)
                self._failing = True
                self._out_of_files()
                self._pause(loop, _RETRY_SECONDS)
                break
            source = source_of(address[0])
            (self._known if self._knows(source) else self._strangers).append((plain, source))
        if self._next is None:
            self._let_some_in(loop)

    def _let_some_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let in the next waiting connections.

        Every fourth turn belongs to an unknown source, and the remaining turns belong to known sources.
        """
        self._next = None
        if self._known or self._strangers:
            self._next = loop.call_later(_PAUSE_SECONDS, self._let_some_in, loop)
        for turn in range(_LET_IN_PER_TURN):
            waiting = self._strangers if turn % 4 == 3 else self._known
            if waiting:
                self._let_in(*waiting.popleft())

    def _pause(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        loop.remove_reader(self._socket)
        self._retry = loop.call_later(seconds, self._listen, loop)
