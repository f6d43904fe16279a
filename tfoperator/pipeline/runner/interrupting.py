"""SIGINT and SIGTERM cancel a run in order, unless the program deals with them itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def on_signals(cancel: Callable[[], None]) -> Iterator[None]:
    """While entered, a signal whose handler is still Python's own calls `cancel`. Only the main thread can do that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        # From a thread: a signal handler must not take locks that its own thread may hold.
        threading.Thread(target=cancel, name="cancel-pipeline", daemon=True).start()

    own = {
        number: signal.signal(number, handle)
        for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL))
        if signal.getsignal(number) is default
    }
    try:
        yield
    finally:
        for number, before in own.items():
            signal.signal(number, before)
