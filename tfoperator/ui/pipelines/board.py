"""The list of runs, and notification of changes: one thread polls, for all pages together, while there are any.

It reads the number of the last change and the runners of unfinished runs, which takes two system calls a run, in
an object store a request each; it reads the store when the number has changed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from tfoperator.base.clock import Repetition, SystemClock
from tfoperator.pipeline import Home, ObjectStoreError, StoreError
from tfoperator.pipeline.store import ExecutionState, RunRecord
from tfoperator.ui.listening import Listeners
from tfoperator.ui.pipelines.views import run_row

MAX_RUNS = 1000
"""Runs in the list: the newest."""


class RunBoard:
    """`start()` any number of times, then `stop()`. Thread-safe."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._looks = Repetition(self._look, seconds=home.look_seconds, clock=SystemClock(), name="ui-pipeline-runs")
        self.listeners = Listeners()
        """Listeners for the ids of changed runs, and "" for other changes."""
        self._lock = threading.Lock()  # guards the fields below
        self._rows: dict[str, dict[str, Any]] = {}
        self._problem = ""
        self._synced = False
        # Used only by the thread.
        self._counter: int | None = None
        self._records: list[RunRecord] = []
        self._states: dict[str, dict[str, ExecutionState]] = {}

    def start(self) -> None:
        """Start to poll, unless that has started."""
        self._looks.start()

    def stop(self) -> None:
        """End the thread. Idempotent."""
        self._looks.stop()

    @property
    def rows(self) -> Mapping[str, dict[str, Any]]:
        """The runs by id, the newest first."""
        with self._lock:
            return self._rows

    @property
    def status(self) -> dict[str, Any]:
        """Whether the runs were read, and why they can't be read."""
        with self._lock:
            return {"synced": self._synced, "problems": {"pipelines": self._problem} if self._problem else {}}

    # In the thread.

    def _look(self) -> None:
        if not self.listeners:
            return
        counter = self._counter
        problem = self._read()
        before = self.rows
        # In an unchanged store, only runners can have died.
        known = before if self._counter == counter else {}
        rows = {}
        for run in self._records:
            same = run.id in known and run.state != "running"
            try:
                rows[run.id] = known[run.id] if same else run_row(self._home.seen(run), self._states.get(run.id, {}))
            except ObjectStoreError as error:
                problem = problem or str(error)
                if run.id in before:
                    rows[run.id] = before[run.id]
        with self._lock:
            self._rows = rows
            status = (self._problem, self._synced)
            self._problem, self._synced = problem, self._synced or not problem
            news = {key for key in before.keys() | rows.keys() if before.get(key) != rows.get(key)}
            if status != (self._problem, self._synced):
                news.add("")
        self.listeners.tell(*news)

    def _read(self) -> str:
        """Read the store if it has changed; return why that failed, or ""."""
        try:
            counter = self._home.changes()
            if counter == self._counter:
                return ""
            if counter < 0:  # no runs yet
                self._records, self._states = [], {}
            else:
                with self._home.reading() as store:
                    self._records = store.runs(most=MAX_RUNS)
                    self._states = store.execution_states([run.id for run in self._records])
        except (StoreError, ObjectStoreError) as error:
            self._counter = None
            return str(error)
        self._counter = counter
        return ""
