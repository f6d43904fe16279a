"""Reads the log of one container over several responses, and emits each line once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from tfoperator.logs.lines.lines import ResumableLines


class LogCut(Exception):
    """The connection broke, or the log can't be read for now. The caller should retry."""


class LogNotYet(LogCut):
    """The container has not started, so its log can't be read yet.

    The exception is also raised for a container that has ended without a start. Then there is no log.
    """


class NoLog(Exception):
    """The log can't be read, now or later."""


class LogConnection(Protocol):
    """The bytes of a log from a given time on. If the server supports it, each line begins with the time of writing.

    Iteration ends normally at the end of the response. The iterator raises LogCut when the connection breaks, and NoLog
    if a new connection would also fail.
    """

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None:
        """End the iteration at once. Idempotent, thread-safe."""
        ...


class LogReader:
    """Emits each line once, in order. Call `read` and `finish` in the same thread. Any thread may call `close()`.

    `connect(since)` opens the log from an RFC 3339 time on ("" for the whole log). `connect` raises LogCut or NoLog.
    `emit` receives the lines as they arrive, without line ends. `position` is the time stamp of the last line that an
    earlier reader read. With `keep_times` each line begins with its time.
    """

    def __init__(
        self,
        connect: Callable[[str], LogConnection],
        emit: Callable[[list[str]], object],
        position: str = "",
        *,
        keep_times: bool = False,
    ) -> None:
        self._connect = connect
        self._emit = emit
        self._lines = ResumableLines(position, keep_times=keep_times)
        self._lock = threading.Lock()  # guards _connection and _closed
        self._connection: LogConnection | None = None
        self._closed = False

    @property
    def position(self) -> str:
        """The time stamp of the latest line; "" if the server sends none."""
        return self._lines.position

    def read(self) -> bool:
        """Read a response to its end.

        Return whether the response contained bytes. Raises LogCut or NoLog, but raises nothing after `close`.
        """
        connection = self._connect(self._lines.since())
        with self._lock:
            self._connection = connection
            closed = self._closed
        heard = False
        try:
            if not closed:
                self._lines.connected()
                for data in connection:
                    heard = True
                    if lines := self._lines.feed(data):
                        self._emit(lines)
        finally:
            connection.close()
        return heard

    def finish(self) -> None:
        """Emit the last line of a log that has ended, if the line has no line end."""
        if lines := self._lines.end():
            self._emit(lines)

    def close(self) -> None:
        """End the current `read`. Every later `read` ends at once. The call is idempotent and does not block."""
        with self._lock:
            self._closed = True
            connection = self._connection
        if connection is not None:
            connection.close()
