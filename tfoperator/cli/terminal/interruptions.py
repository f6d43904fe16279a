"""Handles the ways to end a run: Ctrl-C, SIGTERM, a closed terminal, or a closed pipe (`tfoperator run ... | head`)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


def in_thread(cancel: Callable[[], object]) -> Callable[[], None]:
    """Return a function for a signal handler.

    The function calls `cancel` in a new thread, because the thread that the signal interrupts may hold a lock that
    `cancel` needs.
    """
    return lambda: threading.Thread(target=cancel, name="cancel", daemon=True).start()


class Interruptions:
    """While the `with` block runs, SIGINT, SIGTERM and SIGHUP call `interrupt`.

    The first call of `interrupt` must stop the run gracefully, the second call at once. The third signal ends this
    process with `os._exit`. After this, the guardian process of the run stops the processes and containers of the run.
    A signal that this process already ignores stays ignored, which `nohup` and background jobs of a shell need. Use the
    class only in the main thread.

    Without `interrupt`, signals are counted until `pass_on` sets the function to call.
    """

    def __init__(self, interrupt: Callable[[], None] | None = None) -> None:
        self._early = 0
        self._interrupt = interrupt or self._count
        self._gone = False
        self.signals: list[int] = []
        """The received signals, in order."""

    def pass_on(self, interrupt: Callable[[], None]) -> None:
        """Call `interrupt` for each signal from now on, and once for each signal that was counted before."""
        self._interrupt = interrupt
        for _ in range(self._early):
            interrupt()

    def _count(self) -> None:
        self._early += 1

    def hang_up(self) -> None:
        """Call `interrupt`, because the output can't be written any more.

        A closed terminal causes both SIGHUP and a call of this method; together they count as one signal.
        """
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
