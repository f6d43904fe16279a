"""A log for lines that clients cause. Anybody may be a client, so a flood of bad requests must not fill the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

LINES_PER_SOURCE = 10
"""The maximum number of lines of a source in a minute. It suffices to see a client's mistake."""
LINES = 100
"""The maximum number of lines of all sources together in a minute."""


class StrangersLog(logging.LoggerAdapter[logging.Logger]):
    """Write at most `LINES_PER_SOURCE` lines of a source in a minute.

    The next line after that shows how many lines were left out. The keyword `source` of each method is the client's
    source. All lines without this keyword count as lines of one source. Lines at the level DEBUG are not limited.
    Thread-safe.
    """

    def __init__(self, logger: logging.Logger, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logger)
        self._monotonic = monotonic
        self._lock = threading.Lock()  # guards the three below
        self._ends = 0.0  # of the minute
        self._lines = Counter[str]()  # in this minute, by source
        self._left_out = 0

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write a line, unless its source has used its share. All other methods call this method."""
        source = str(kwargs.pop("source", ""))
        if level > logging.DEBUG:
            with self._lock:
                now, left_out = self._monotonic(), 0
                if now >= self._ends:
                    left_out, self._left_out, self._ends = self._left_out, 0, now + 60.0
                    self._lines.clear()
                if self._lines[source] >= LINES_PER_SOURCE or self._lines.total() >= LINES:
                    self._left_out += 1
                    return
                self._lines[source] += 1
            if left_out:
                self.logger.warning(
                    "%d log lines about clients' requests were left out: there were too many in one minute", left_out
                )
        super().log(level, msg, *args, **kwargs)
