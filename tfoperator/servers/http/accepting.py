"""Accepts the connections of one listening socket, also after the process ran out of file descriptors."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

logger = logging.getLogger(__name__)

_ACCEPTED_PER_TURN = 32
_RETRY_SECONDS = 0.1
_LET_IN_PER_TURN = 8
_PAUSE_SECONDS = 0.005
"""A newcomer at a full server ends the oldest connection. Thus the rate of newcomers is bounded, 1,600 a second: a
request that comes at once is read before its connection is the oldest, for 128 places last for 80 ms, and for 16 turns
of the loop however busy that is. Other connections wait in the kernel's queue."""


class Acceptor:
    """Passes each connection to `let_in`, with its remote address; that returns whether it is to be served.

    Call all methods in the loop's thread, except `stop()` where it was never started. It owns the socket.
    """

    def __init__(self, listening: socket.socket, let_in: Callable[[socket.socket, str], bool]) -> None:
        self._socket = listening
        self._let_in = let_in
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._failing = False
        self._stopped = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to accept, unless it was stopped meanwhile."""
        if not self._stopped:
            self._loop = loop
            self._listen(loop)

    def stop(self) -> None:
        """Stop accepting, and close the socket. Idempotent."""
        self._stopped = True
        if self._loop is not None and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
        if self._retry is not None:
            self._retry.cancel()
        self._socket.close()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self._socket, self._accept, loop)

    def _accept(self, loop: asyncio.AbstractEventLoop) -> None:
        """Accept waiting connections; not all at once, which would block the loop for the open ones."""
        newcomers = 0
        for _ in range(_ACCEPTED_PER_TURN):
            try:
                plain, address = self._socket.accept()
            except BlockingIOError:
                self._failing = False
                return
            except OSError as error:
                # Usually: too many open files. The backlog is accepted when there are fewer.
                if not self._failing:
                    logger.warning("can't accept connections for now: %s", error)
                self._failing = True
                self._pause(loop, _RETRY_SECONDS)
                return
            newcomers += self._let_in(plain, address[0])
            if newcomers == _LET_IN_PER_TURN:
                self._pause(loop, _PAUSE_SECONDS)
                return

    def _pause(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        loop.remove_reader(self._socket)
        self._retry = loop.call_later(seconds, self._listen, loop)
