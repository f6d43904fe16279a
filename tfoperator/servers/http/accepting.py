"""Accepts the connections of a listening socket, and limits the rate at which they reach the server.

If the process has no free file descriptor, this module tries again after 0.1 s.
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
"""The acceptor passes at most `_LET_IN_PER_TURN` connections to the server each `_PAUSE_SECONDS`: 1,600 a second. All
other connections wait in the acceptor.

The reason: in a full server, a new connection ends the oldest connection. A server with 128 connections (the default of
`Limits.connections`) then replaces all of them in 80 ms at the earliest, which are 16 turns of the event loop. So if a
client sends its request at once, the server reads the request before the connection is the oldest. At most a quarter of
the 1,600 connections come from unknown sources (sources that have had no successful response yet), even if no other
connection waits. The TLS handshake of each of these connections may cost the server a millisecond.
"""
_MOST_WAITING = 1024
"""The maximum number of connections that wait in the acceptor. Further connections wait in the kernel's queue, which
has no priorities: there, a kubelet's probe can wait for seconds behind 1,000 connections of unknown sources.
"""


class Acceptor:
    """Passes each connection to `let_in`, together with its source (`limits.source_of`).

    Connections of sources for which `knows` returns True have priority. `out_of_files` is called when the process can't
    accept a connection, usually because it has no free file descriptor. `out_of_files` should close other connections.

    Call all methods in the thread of the event loop. If `start` was never called, any thread may call `stop()`, which
    closes the socket.
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
        self._known_waiting: deque[tuple[socket.socket, str]] = deque()
        self._unknown_waiting: deque[tuple[socket.socket, str]] = deque()
        # A tenth of the process's file descriptors for each server leaves at least half of them for other purposes.
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_waiting = _MOST_WAITING if files == resource.RLIM_INFINITY else min(_MOST_WAITING, files // 10)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._next: asyncio.TimerHandle | None = None
        self._failing = False
        self._stopped = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to accept connections, unless `stop` was called before."""
        if not self._stopped:
            self._loop = loop
            self._listen(loop)

    def stop(self) -> None:
        """Stop accepting. Close the socket and the accepted connections that still wait for `let_in`. Idempotent."""
        self._stopped = True
        if self._loop is not None and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
        for timer in (self._retry, self._next):
            if timer is not None:
                timer.cancel()
        for plain, _ in (*self._known_waiting, *self._unknown_waiting):
            plain.close()
        self._known_waiting.clear()
        self._unknown_waiting.clear()
        self._socket.close()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self._socket, self._accept, loop)

    def _accept(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accept at most 32 connections from the kernel's queue.

        If there are more, the loop calls this method again. If the method accepted more connections at once, the open
        connections would have to wait.
        """
        for _ in range(_ACCEPTED_PER_TURN):
            if len(self._known_waiting) + len(self._unknown_waiting) >= self._most_waiting:
                self._pause(loop, _PAUSE_SECONDS)
                break
            try:
                plain, address = self._socket.accept()
            except BlockingIOError:
                self._failing = False
                break
            except OSError as error:
                # Usually the process has too many open files. The connections stay in the kernel's queue meanwhile.
                if not self._failing:
                    logger.warning("can't accept connections at the moment: %s", error)
                self._failing = True
                self._out_of_files()
                self._pause(loop, _RETRY_SECONDS)
                break
            source = source_of(address[0])
            (self._known_waiting if self._knows(source) else self._unknown_waiting).append((plain, source))
        if self._next is None:
            self._let_some_in(loop)

    def _let_some_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass up to 8 waiting connections to `let_in`: 6 of known sources, and 2 of unknown sources."""
        self._next = None
        if self._known_waiting or self._unknown_waiting:
            self._next = loop.call_later(_PAUSE_SECONDS, self._let_some_in, loop)
        for turn in range(_LET_IN_PER_TURN):
            waiting = self._unknown_waiting if turn % 4 == 3 else self._known_waiting
            if waiting:
                self._let_in(*waiting.popleft())

    def _pause(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        loop.remove_reader(self._socket)
        self._retry = loop.call_later(seconds, self._listen, loop)
