"""Follows a container's log in a thread of its own, and never stands in the way of the outcome.

Whatever happens to the log (cut, rotated, refused, a node that is gone), the launcher waits for the container, not for
its log. When the container has ended, the log gets some seconds for what is left.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from tfoperator.clock import Clock, StopSignal
from tfoperator.launcher.logs import LineSplitter, ResumableLines

__all__ = ["LogCut", "LogFollower", "LogNotYet", "LogSource", "NoLog"]

logger = logging.getLogger(__name__)

_PAUSE = (0.2, 5.0)  # seconds before the first repetition, and at most
_LAST_TRIES = 3  # once the container has ended
_KEEP_EVERY = 1.0  # seconds between two notes of how far the log has been told


class LogCut(Exception):
    """The connection broke, or the log can't be read yet: it is worth another try."""


class LogNotYet(LogCut):
    """The container has not started, so its log can't be read yet; once it has ended, there is none."""


class NoLog(Exception):
    """The log can't be read, now or later."""


class LogSource(Protocol):
    """The bytes of a log from some time on; `close()` ends the iteration from any thread.

    Iteration raises LogCut when the connection breaks, and ends normally at the end of what the server sends.
    """

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None:
        """End it at once. Idempotent."""
        ...


class LogFollower:
    """Tells every line of a log once. `start()`, then `finish()`, each once, from one thread.

    `connect(since)` opens the log from an RFC 3339 time on ("" for all of it); it raises LogCut or NoLog. `keep` is
    given the time stamp of the last line that was told, now and then, and at the end.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[str], LogSource],
        tell: Callable[[str], object],
        *,
        clock: Clock,
        position: str = "",
        keep: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._name = name
        self._connect = connect
        self._lines = ResumableLines(tell, position)
        self._keep = keep
        self._clock = clock
        self._over = StopSignal()
        self._stop = StopSignal()
        self._lock = threading.Lock()  # guards _source
        self._source: LogSource | None = None
        self._kept_at = clock.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"log-{name}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def end(self) -> None:
        """The container has ended: read what is left. Does not block; `finish` comes later."""
        self._over.set()

    def finish(self, seconds: float = 10.0) -> None:
        """The container has ended: read what is left, for so many seconds at most, and stop."""
        self.end()
        self._thread.join(seconds)
        self._stop.set()
        with self._lock:
            source = self._source
        if source is not None:
            source.close()
        self._thread.join(5.0)
        if self._thread.is_alive():
            logger.warning("the log of %s does not end; some of its last lines may be missing", self._name)

    def _run(self) -> None:
        try:
            self._follow()
        except NoLog as error:
            level = logging.DEBUG if self._over.is_set() else logging.WARNING  # with its container, a log goes
            logger.log(level, "the log of %s can't be read: %s", self._name, error)
        except Exception:
            logger.exception("reading the log of %s failed; the component goes on", self._name)
        finally:
            self._keep(self._lines.position)

    def _follow(self) -> None:
        pause, late = _PAUSE[0], 0
        while not self._stop.is_set():
            over = self._over.is_set()  # asked before reading: no last words lost
            try:
                heard = self._read(whole=over)
                if over:
                    return
                pause = _PAUSE[0] if heard else min(pause * 2, _PAUSE[1])
            except LogCut as error:
                logger.debug("the log of %s was cut, reading on: %s", self._name, error)
                late += over
                if over and isinstance(error, LogNotYet):
                    return
                if late >= _LAST_TRIES:
                    logger.warning("the end of the log of %s can't be read: %s", self._name, error)
                    return
                pause = _PAUSE[0] * 2**late if over else min(pause * 2, _PAUSE[1])
            (self._stop if over else self._over).wait(self._clock, pause)

    def _read(self, *, whole: bool) -> bool:
        """Read one answer to its end; returns whether it had anything. With `whole`, a rest is a line."""
        source = self._connect(self._lines.since())
        with self._lock:
            self._source = source
        self._lines.connected()
        splitter, heard = LineSplitter(), False
        try:
            if self._stop.is_set():  # finished while the connection was being made
                return heard
            for data in source:
                for line in splitter.feed(data):
                    heard = True
                    self._lines.take(line)
                self._note()
        finally:
            source.close()
        for line in splitter.end() if whole else ():
            self._lines.take(line)
        return heard

    def _note(self) -> None:
        now = self._clock.monotonic()
        if now - self._kept_at >= _KEEP_EVERY:
            self._kept_at = now
            self._keep(self._lines.position)
