"""How a user ends a run: Ctrl-C, SIGTERM, a closed terminal, a reader that has exited."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


def in_thread(cancel: Callable[[], object]) -> Callable[[], None]:
    """Return a function for a signal handler, which must not take locks that its own thread may hold."""
    return lambda: threading.Thread(target=cancel, name="cancel", daemon=True).start()


class Interruptions:
    """While entered, SIGINT, SIGTERM and SIGHUP call `interrupt`: once to end in order, twice to end at once.

    The third signal ends the process at once; the guardian process removes its containers. A signal that
    is ignored stays so: `nohup` and a shell's background jobs rely on it. For the main thread only.

    Without `interrupt`, signals are counted until `pass_on` sets the function to call.
    """

    def __init__(self, interrupt: Callable[[], None] | None = None) -> None:
        self._early = 0
        self._interrupt = interrupt or self._count
        self._gone = False
        self.signals: list[int] = []
        """The received signals, in order."""

    def pass_on(self, interrupt: Callable[[], None]) -> None:
        """Call this from now on, and for what has been counted."""
        self._interrupt = interrupt
        for _ in range(self._early):
            interrupt()

    def _count(self) -> None:
        self._early += 1

    def hang_up(self) -> None:
        """Record that the output can't be written. A closed terminal causes both SIGHUP and this; it counts once."""
        if not self._gone and not self.signals:
            self._gone = True
            self._interrupt()

    def __enter__(self) -> Interruptions:
        self._before = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.signals.append(number)
        if len(self.signals) > 2:
            os._exit(128 + number)
        if number == signal.SIGHUP and self._gone:
            return
        self._gone = self._gone or number == signal.SIGHUP
        self._interrupt()
