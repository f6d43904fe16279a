"""Forwards a container's log in a thread of its own, so that it never delays the outcome.

Whatever happens to the log (cut, rotated, refused, a node that is gone), the launcher waits for the container, not for
its log. When the container has ended, the log gets some seconds for what is left.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tfoperator.base.clock import Clock, StopSignal
from tfoperator.logs.lines import LogConnection, LogCut, LogNotYet, LogReader, NoLog

logger = logging.getLogger(__name__)

_PAUSE = (0.2, 5.0)  # seconds before the first repetition, and at most
_LAST_TRIES = 3  # once the container has ended
_KEEP_EVERY = 1.0  # seconds between two calls of `keep`


class LogForwarder:
    """Passes each line of a log to `log`, once. `start()`, then `finish()`, each once, from one thread.

    `connect` is that of a `LogReader`. `position` is what `keep` was given last, if a launcher before has forwarded
    some of the log; `keep` is called now and then, and at the end.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[str], LogConnection],
        log: Callable[[str], object],
        *,
        clock: Clock,
        position: str = "",
        keep: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._name = name
        self._log = log
        self._keep = keep
        self._clock = clock
        self._reader = LogReader(connect, self._forward, position)
        self._ended = StopSignal()
        self._stop = StopSignal()
        self._kept_at = clock.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"log-{name}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def end(self) -> None:
        """The container has ended: read what is left. Does not block; `finish` comes later."""
        self._ended.set()

    def finish(self, seconds: float = 10.0) -> None:
        """The container has ended: read what is left, for so many seconds at most, and stop."""
        self.end()
        self._thread.join(seconds)
        self._stop.set()
        self._reader.close()
        self._thread.join(5.0)
        if self._thread.is_alive():
            logger.warning("the log of %s does not end; some of its last lines may be missing", self._name)

    def _run(self) -> None:
        try:
            self._follow()
        except NoLog as error:
            level = logging.DEBUG if self._ended.is_set() else logging.WARNING  # a log goes with its container
            logger.log(level, "the log of %s can't be read: %s", self._name, error)
        except Exception:
            logger.exception("reading the log of %s failed; the component goes on", self._name)
        finally:
            self._keep(self._reader.position)

    def _follow(self) -> None:
        pause, late = _PAUSE[0], 0
        while not self._stop.is_set():
            ended = self._ended.is_set()  # asked before reading: what is written last must not be lost
            try:
                heard = self._reader.read()
                if ended:
                    self._reader.finish()
                    return
                pause = _PAUSE[0] if heard else min(pause * 2, _PAUSE[1])
            except LogCut as error:
                logger.debug("the log of %s was cut, reading on: %s", self._name, error)
                late += ended
                if ended and isinstance(error, LogNotYet):
                    return
                if late >= _LAST_TRIES:
                    logger.warning("the end of the log of %s can't be read: %s", self._name, error)
                    return
                pause = _PAUSE[0] * 2**late if ended else min(pause * 2, _PAUSE[1])
            (self._stop if ended else self._ended).wait(self._clock, pause)

    def _forward(self, lines: list[str]) -> None:
        for line in lines:
            self._log(line)
        now = self._clock.monotonic()
        if now - self._kept_at >= _KEEP_EVERY:
            self._kept_at = now
            self._keep(self._reader.position)
