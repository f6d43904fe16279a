"""Follows every container log of an agent at once and hands on whole lines, for people who watch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import BinaryIO

import msgspec

from tfoperator.clock import Clock, StopSignal, SystemClock
from tfoperator.local.logs import LogFile, LogStore

__all__ = ["LogFollower", "LogLine"]

logger = logging.getLogger(__name__)

_POLL = 0.1  # seconds between two rounds
_BLOCK = 256 * 1024
_LONGEST_LINE = 64 * 1024
"""Bytes after which an unfinished line is handed on as it is: somebody may write without line ends for ever."""


class LogLine(msgspec.Struct, frozen=True):
    """One line of one container's output, without its end."""

    namespace: str
    pod: str
    container: str
    attempt: int
    text: str


class LogFollower:
    """One thread that reads what has been appended to any log. `sink` gets the lines, in the order of each log.

    A sink that blocks slows down the follower, never the containers: they write into files.
    """

    def __init__(self, store: LogStore, sink: Callable[[list[LogLine]], None], *, clock: Clock | None = None) -> None:
        self._store = store
        self._sink = sink
        self._clock = clock or SystemClock()
        self._stop = StopSignal()
        self._open: dict[LogFile, _Tail] = {}
        self._thread = threading.Thread(target=self._run, name="log-follower", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Read what is there up to now, then end."""
        self._stop.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._clock, _POLL):
                self._round()
            self._round()
        except Exception:
            logger.exception("following the logs failed; they are complete in %s", self._store.root)
        finally:
            for tail in self._open.values():
                tail.close()

    def _round(self) -> None:
        for namespace, pod, container, log in self._store.all():
            tail = self._open.get(log)
            if tail is None:
                tail = self._open[log] = _Tail(log)
            while lines := tail.read():
                self._sink([LogLine(namespace, pod, container, log.attempt, text) for text in lines])


class _Tail:
    """Where we are in one log."""

    def __init__(self, log: LogFile) -> None:
        self._log = log
        self._stream: BinaryIO | None = None
        self._rest = b""
        self._finished = False

    def read(self) -> list[str]:
        """The lines that have been completed since the last time; those of a block at most."""
        if self._finished:
            return []
        ended = self._log.closed  # asked before reading: nothing is written after it is true
        if self._stream is None:
            self._stream = self._log.path.open("rb")
        block = self._stream.read(_BLOCK)
        lines = (self._rest + block).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST_LINE or (ended and not block):
            lines += [self._rest] if self._rest else []
            self._rest = b""
        if ended and not block:
            self._finished = True
            self.close()
        return [_text(line) for line in lines]

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _text(line: bytes) -> str:
    # A progress bar rewrites its line by carriage returns: what it shows last is what a person would see.
    return line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
