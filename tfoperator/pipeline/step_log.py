"""The file that keeps what a step has logged."""

from __future__ import annotations

import threading
from pathlib import Path

from tfoperator.base.controlchars import without_controls


def log_folder(run_id: str, step: str) -> str:
    """Where the pieces of a step's log are among objects."""
    return f"runs/{run_id}/logs/{step}"


class StepLog:
    """Adds lines to a file, without control characters. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # guards writes to the file: one line at a time

    def add(self, line: str) -> None:
        """Add a line. Raises OSError."""
        with self._lock:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(f"{without_controls(line)}\n")
