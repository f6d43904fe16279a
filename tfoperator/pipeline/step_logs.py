"""What the steps of runs have logged: files of a directory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tfoperator.base.controlchars import without_controls


class StepLogs:
    """The logs below a folder. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def close(self) -> None:
        """Release them, when all that was appended is written."""

    def flush(self) -> None:
        """Let the next holder of the run's lease see all that was appended."""

    def abandon(self) -> None:
        """Write no more for others to see: another holds the lease."""

    def check(self) -> None:
        """Raise ComponentError if none can be written."""

    def run_folder(self, run_id: str) -> Path:
        """Return the folder of the files of a run."""
        return self._folder / "runs" / run_id

    def positions(self, run_id: str, step: str) -> Path:
        """Return the folder of the positions up to which the logs of a step's containers were read."""
        return self.run_folder(run_id) / "steps" / step

    def file(self, run_id: str, step: str) -> Path:
        """Return the file of a log, with what was appended until some seconds ago. Raises OSError."""
        return self.run_folder(run_id) / "logs" / f"{step}.log"

    def lines(self, run_id: str, step: str) -> Iterator[str]:
        """Yield the lines of a log. Raises OSError; FileNotFoundError if there is none."""
        with self.file(run_id, step).open(encoding="utf-8", errors="backslashreplace") as lines:
            for line in lines:
                yield line.rstrip("\n")

    def append_to(self, run_id: str, step: str) -> Callable[[str], None]:
        """Return the receiver of a step's log lines, which keeps them without control characters.

        Thread-safe; raises OSError. While the run is locked.
        """
        path, lock = self.file(run_id, step), threading.Lock()  # lines are not interleaved

        def add(line: str) -> None:
            with lock:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                    stream.write(f"{without_controls(line)}\n")

        return add

    def remove(self, run_id: str) -> None:
        """Remove those of a run, and their positions, where others read them. Raises ObjectStoreError."""
