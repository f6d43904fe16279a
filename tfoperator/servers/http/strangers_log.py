"""A log for lines that clients cause.

The number of lines is limited, because a flood of bad requests could fill the disk.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

LINES_PER_SOURCE = 10
"""The maximum number of lines that a source causes in a minute. They are enough to see the mistake of a client."""
LINES = 100
"""The maximum number of lines of all sources together in a minute."""


class StrangersLog(logging.LoggerAdapter[logging.Logger]):
    """Writes at most 10 lines of a source and 100 lines in total (LINES_PER_SOURCE, LINES) in a minute. Thread-safe.

    A line in a later minute shows how many lines were left out. The keyword `source` of each method is the client's
    source (`limits.source_of`). All lines without this keyword count as lines of the same source. Lines at the level
    DEBUG are not limited.
    """

    def __init__(self, logger: logging.Logger, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logger)
        self._monotonic = monotonic
        self._lock = threading.Lock()  # guards the next three fields
        self._ends = 0.0  # the end of the current minute, by `monotonic`
        self._lines = Counter[str]()  # in this minute, by source
        self._left_out = 0

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write a line, unless a limit is reached. `info`, `warning` and the other methods call this method."""
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
