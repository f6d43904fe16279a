"""Writes the records of a run while the run goes on.

The records are the file `records.json` in the run's directory: the run's jobs, pods, events and curves of metrics.
Other processes read these records, to show the run while it runs, and after it was killed.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import msgspec

from tfoperator.base.clock import Clock, Repetition, SystemClock
from tfoperator.base.private_files import write_private
from tfoperator.local.run.kept import LOG, RECORDS, RESULT
from tfoperator.local.run.records import RunRecords

logger = logging.getLogger(__name__)

_SECONDS = 0.25
"""Seconds between two updates of the log's modification time, which show that the run is alive. The records, too, are
written at most once in this time. So they may lack the newest changes if the run is killed.
"""

_MAX_SHARE = 0.05
"""The share of one processor that writing may use. So large records are written less often."""


class RunJournal:
    """Writes the records whenever they have changed, in its own thread, while the `with` block runs.

    `records(since)` returns the number of changes so far and the records. It returns None if nothing has changed after
    the change number `since`. The run must hold the lock of its log file (`tfoperator.log`), and the journal updates
    the modification time of this file. By the lock and the time, other processes see that the run is alive. If the
    disk is full, the records stay as they were last written.
    """

    def __init__(
        self,
        run_dir: Path,
        records: Callable[[int], tuple[int, RunRecords] | None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._directory = run_dir
        self._records = records
        self._written = -1
        self._failed = False
        self._due = 0.0  # on the monotonic clock
        self._clock = clock or SystemClock()
        self._repetition = Repetition(self._keep, seconds=_SECONDS, clock=self._clock, name="run-journal")

    def __enter__(self) -> RunJournal:
        """Remove the result of an earlier run in this directory, and begin to write.

        Raises OSError if this result can't be removed.
        """
        (self._directory / RESULT).unlink(missing_ok=True)
        self._keep()
        self._repetition.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._repetition.stop()

    def _keep(self) -> float | None:
        try:
            os.utime(self._directory / LOG)
            if self._clock.monotonic() >= self._due:
                self._write()
            self._failed = False
        except OSError as error:
            if not self._failed:
                logger.warning("the run's records can't be written: %s", error.strerror)
            self._failed = True
        return None

    def _write(self) -> None:
        changed = self._records(self._written)
        if changed is None:
            return
        began = time.thread_time()
        changes, records = changed
        write_private(self._directory / RECORDS, msgspec.json.encode(records))
        self._written = changes
        self._due = self._clock.monotonic() + (time.thread_time() - began) / _MAX_SHARE
