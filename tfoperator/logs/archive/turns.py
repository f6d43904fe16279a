"""One at a time may write a pod's folder anew: each takes over what the one before has written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfoperator.base.clock import Clock


class Turns:
    """Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()  # guards what follows
        self._taken: set[Path] = set()
        self._closed = False

    @contextmanager
    def one_of(self, folder: Path, deadline: float) -> Iterator[None]:
        """Have the folder for oneself.

        Raises OSError if somebody else still has it at the deadline, on the monotonic clock, or when this is closed.
        """
        with self._changed:
            while folder in self._taken:
                if self._closed or not self._clock.wait_until(self._changed, deadline):
                    raise OSError(f"{folder.name} is being written by somebody else")
            self._taken.add(folder)
        try:
            yield
        finally:
            with self._changed:
                self._taken.discard(folder)
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
