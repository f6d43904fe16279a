"""The list of runs, and notification of changes: one thread polls, for all pages together, while there are any.

It reads the mark of the last change and the runners of unfinished runs, which takes two system calls a run, and the
store when the mark has changed. PostgreSQL notifies; beneath that it looks every few seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfoperator.base.clock import Elapsed, Repetition, SystemClock
from tfoperator.pipeline import Home, StoreError
from tfoperator.pipeline.store.records import ExecutionState, RunRecord
from tfoperator.ui.listening import Listeners
from tfoperator.ui.pipelines.views import run_row

MAX_RUNS = 1000
"""Runs in the list: the newest."""
_READ_SECONDS = 10.0
"""After so long runs in progress are read again: a lease runs out without a write."""


class RunBoard:
    """Thread-safe. It reads nothing before its `looks` are started."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.looks = Repetition(self._look, seconds=home.look_seconds, clock=SystemClock(), name="ui-pipeline-runs")
        self.listeners = Listeners()
        """Listeners for the ids of changed runs, and "" for other changes."""
        self.rows: Mapping[str, dict[str, Any]] = {}
        """The runs by id, the newest first. Replaced whole, as the status."""
        self.status: Mapping[str, Any] = {"synced": False, "problems": {}}
        """Whether the runs were read, and why they can't be read."""
        # Used only by the thread.
        self._mark: str | None = None
        self._read_at = Elapsed(SystemClock())
        self._records: list[RunRecord] = []
        self._states: dict[str, dict[str, ExecutionState]] = {}

    # In the thread.

    def _look(self) -> float:
        if not self.listeners:
            return self._home.look_seconds
        problem, before = self._read(), self.rows
        # Also where the store is unchanged: runners can have died.
        rows = {run.id: run_row(self._home.seen(run), self._states.get(run.id, {})) for run in self._records}
        news = {key for key in before.keys() | rows.keys() if before.get(key) != rows.get(key)}
        problems = {"pipelines": problem} if problem else {}
        status = {"synced": self.status["synced"] or not problem, "problems": problems}
        if status != self.status:
            news.add("")
        self.rows, self.status = rows, status
        self.listeners.tell(*news)
        return self._home.look_seconds if problem else self._home.wait()

    def _read(self) -> str:
        """Read the store if it has changed; return why that failed, or ""."""
        try:
            mark = self._home.changes()
            stale = self._read_at.seconds > _READ_SECONDS and any(run.state == "running" for run in self._records)
            if mark == self._mark and not stale:
                return ""
            if not mark:  # no runs yet
                self._records, self._states = [], {}
            else:
                store = self._home.reading()
                self._records = store.runs(most=MAX_RUNS)
                self._states = store.execution_states([run.id for run in self._records])
        except StoreError as error:
            self._mark = None
            return str(error)
        self._mark, self._read_at = mark, Elapsed(SystemClock())
        return ""
