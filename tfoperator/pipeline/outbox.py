"""Delayed writes to an object store: lines of logs, which can't be appended there, and logs' positions."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict

from tfoperator.base.clock import Clock, Repetition
from tfoperator.base.controlchars import without_controls
from tfoperator.pipeline.objects import ObjectStore, ObjectStoreError

logger = logging.getLogger(__name__)

_WRITE_PERIOD = 5.0
_MAX_LOG_BYTES = 4 << 20
"""Bytes of one log that are kept while the store can't be reached; beyond that lines are lost."""


class Outbox:
    """Collects, and writes every few seconds. `start` and `stop` once each; the others from any thread.

    Lines go to a new object each time, before the files: a reader of a log's position finds the lines up to it.
    """

    def __init__(self, objects: ObjectStore, clock: Clock, prefix: str) -> None:
        """`prefix` is part of the names of logs' pieces: that of a later runner sorts after an earlier one's."""
        self._objects = objects
        self._prefix = prefix
        self._lock = threading.Lock()  # guards the three below
        self._lines: dict[str, list[str]] = defaultdict(list)
        self._sizes: dict[str, int] = defaultdict(int)
        self._files: dict[str, bytes] = {}
        self._pieces = 0  # used only by the writing thread
        self._repetition = Repetition(self._write, seconds=_WRITE_PERIOD, clock=clock, name="outbox")

    def start(self) -> None:
        """Start to write."""
        self._repetition.start()

    def stop(self) -> None:
        """Write the rest, and end."""
        self._repetition.stop()
        self._write()

    def add(self, log: str, line: str) -> None:
        """Add a line to a log, whose pieces have this key as prefix; without control characters."""
        text = without_controls(line)
        with self._lock:
            if self._sizes[log] < _MAX_LOG_BYTES:
                self._sizes[log] += len(text) + 1
                self._lines[log].append(text)

    def put(self, key: str, data: bytes) -> None:
        """Write a file; only the last one of a key counts."""
        with self._lock:
            self._files[key] = data

    def _write(self) -> None:
        with self._lock:
            lines, files = dict(self._lines), self._files
            self._lines, self._files = defaultdict(list), {}
            self._sizes = defaultdict(int)
        try:
            for log in list(lines):
                text = "".join([f"{line}\n" for line in lines[log]])
                self._objects.put(f"{log}/{self._prefix}-{self._pieces:08d}", text.encode(errors="backslashreplace"))
                self._pieces += 1
                del lines[log]
            for key in list(files):
                self._objects.put(key, files[key])
                del files[key]
        except ObjectStoreError as error:
            logger.warning("logs can't be written, and will be tried again: %s", error)
            with self._lock:
                for log, earlier in lines.items():
                    self._lines[log] = earlier + self._lines[log]
                    self._sizes[log] += sum(len(line) + 1 for line in earlier)
                self._files = files | self._files
