"""The page's streams of runs.

A stream consists of lines of JSON: first the current state, then changes, and logs. The module also returns artifacts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tfoperator.base.clock import Elapsed, Repetition, SystemClock
from tfoperator.base.files import open_regular, tail_offset
from tfoperator.pipeline import Home, MetadataStore, RunRecord, StoreError, lineage_of
from tfoperator.pipeline.home import names_files
from tfoperator.pipeline.store.records import ExecutionState
from tfoperator.ui.listening import Listeners
from tfoperator.ui.pipelines.views import FindJob, artifact_detail, run_detail, run_row, step_rows
from tfoperator.ui.problems import CannotRead, NotThere
from tfoperator.ui.streaming import HEARTBEAT, Put, encode, merged, next_changes

MAX_RUNS = 1000
"""The maximum number of runs in the list. The newest runs are shown."""
_READ_SECONDS = 10.0
"""Seconds after which runs in progress are read again. The expiry of a lease is not a write, so it is not noticed."""
_READERS = 4
_LOG_PAUSE = 0.5
"""Seconds between two reads at the end of a log."""
_PIECE_BYTES = 256 << 10
"""The maximum bytes of a read and of a message."""
_MAX_LINE = 64 << 10
"""A line with more bytes is cut in two, because a file without line ends must not fill the memory."""


class PipelinePages:
    """The runs of a home, for all pages. `find_job` finds a TFJob of the page's API server by its UID.

    While pages are open, one thread looks for changes for all of them. The thread reads the mark of the last change,
    and checks the runners of unfinished runs, which takes two system calls for each run. It reads the store only if the
    mark has changed. PostgreSQL notifies the thread of changes. In addition, the thread looks every few seconds.

    Use the streams and `artifact` only in the thread of the event loop. Call `stop()` when the streams have ended; it
    also closes the home.
    """

    def __init__(self, home: Home, find_job: FindJob = lambda _: None) -> None:
        self._home = home
        self._find_job = find_job
        self._looks = Repetition(self._look, seconds=home.look_seconds, clock=SystemClock(), name="ui-pipeline-runs")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="ui-pipelines")
        self._listeners = Listeners()  # for the ids of changed runs, and "" for other changes
        self._rows: Mapping[str, dict[str, Any]] = {}  # by id, the newest first; replaced whole, as the status
        self._status: Mapping[str, Any] = {"synced": False, "problems": {}}
        self.place = str(home)
        """The place of the runs, in a form for users."""
        # Used only by the thread that looks.
        self._store: MetadataStore | None = None  # None before the first run
        self._mark = ""  # of what was read: it changes with each write
        self._read_at = Elapsed(SystemClock())
        self._records: list[RunRecord] = []
        self._states: Mapping[str, Mapping[str, ExecutionState]] = {}

    def stop(self) -> None:
        """End all threads."""
        self._looks.stop()
        self._readers.shutdown(wait=True, cancel_futures=True)
        self._home.close()

    async def runs(self) -> AsyncGenerator[bytes, None]:
        """Yield all runs, then changes: `{"runs": [...]}`, `{"synced": true}` and `{"runs": [...], "gone": [...]}`."""
        self._looks.start()
        with self._listeners.listening() as listener:
            sent: dict[str, Any] = {}
            while True:
                status, rows = self._status, self._rows
                changed = [row for key, row in rows.items() if sent.get(key) != row]
                gone = [key for key in sent if key not in rows]
                if changed or gone:
                    yield encode({"runs": changed, "gone": gone})
                sent = dict(rows)
                yield encode(status)
                await next_changes(listener)

    def run(self, run_id: str, step: str, tail_lines: int) -> AsyncGenerator[bytes, None]:
        """Yield the parts of a run, each when it has changed. If a step is named, also yield the log of the step."""
        self._looks.start()
        seen = asyncio.Event()
        return merged([partial(self._parts, run_id, step, seen), partial(self._log, run_id, step, seen, tail_lines)])

    def artifact(self, number: str) -> dict[str, Any]:
        """Return an artifact with its lineage. The call blocks. Raises NotThere or CannotRead."""
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise NotThere("the id of an artifact must be a number")
        with self._opened() as store:
            found = next((artifact for artifact in store.artifacts(number) if artifact.id == int(number)), None)
            if found is None:
                raise NotThere(f"there is no artifact {number}")
            return artifact_detail(lineage_of(store, found), lineage_of(store, found, downstream=True))

    # In the thread that looks.

    def _look(self) -> float:
        if not self._listeners:
            return self._home.look_seconds
        problem, before = self._read_runs(), self._rows
        # Also where the store is unchanged: runners can have died.
        rows = {run.id: run_row(self._home.seen(run), self._states.get(run.id, {})) for run in self._records}
        news = {key for key in before.keys() | rows.keys() if before.get(key) != rows.get(key)}
        problems = {"pipelines": problem} if problem else {}
        status = {"synced": self._status["synced"] or not problem, "problems": problems}
        if status != self._status:
            news.add("")
        self._rows, self._status = rows, status
        self._listeners.tell(*news)
        pause, store = self._home.look_seconds, self._store
        return pause if problem or store is None else store.database.wait(pause)

    def _read_runs(self) -> str:
        """Read the store if it has changed. Return the reason if that failed, or ""."""
        try:
            before, self._store = self._store, self._home.reading() if self._home.exists() else None
            mark = self._store.database.changes() if self._store is not None else ""
            stale = self._read_at.seconds > _READ_SECONDS and any(run.state == "running" for run in self._records)
            if (self._store, mark) == (before, self._mark) and not stale:
                return ""
            self._records = self._store.runs(most=MAX_RUNS) if self._store is not None else []
            self._states = self._store.execution_states(most=MAX_RUNS) if self._store is not None else {}
        except StoreError as error:
            self._mark = "unknown"
            return str(error)
        self._mark, self._read_at = mark, Elapsed(SystemClock())
        return ""

    # In the threads that read.

    @contextmanager
    def _opened(self) -> Iterator[MetadataStore]:
        """Give access to the home's store for reading, for some milliseconds. Raises NotThere or CannotRead."""
        try:
            if not self._home.exists():
                raise NotThere("no pipeline was run in this folder yet")
            yield self._home.reading()
        except StoreError as error:
            raise CannotRead(str(error)) from error

    def _read(self, run_id: str) -> dict[str, Any]:
        with self._opened() as store:
            run = store.run(run_id)
            if run is None:
                raise NotThere(f"there is no run {run_id}")
            executions = store.executions(run_id)
            launches = {step: self._home.known_launch(store, run, step) for step in run.steps}
            run, makers = self._home.seen(run), store.makers(run_id)
        steps = step_rows(run, executions, launches, makers, self._find_job)
        return {"run": run_detail(run, executions), "steps": steps}

    # In the event loop's thread.

    async def _parts(self, run_id: str, step: str, seen: asyncio.Event, put: Put) -> None:
        """Send the parts of a run. Set `seen` when they contain the step.

        A run in progress is read often, because changes of its attempts and containers cause no notification.
        """
        loop, sent = asyncio.get_running_loop(), dict[str, bytes]()
        with self._listeners.listening() as listener:
            while True:
                problems: dict[str, str] = {}
                parts: dict[str, Any] = {}
                pause = HEARTBEAT
                try:
                    parts = await loop.run_in_executor(self._readers, self._read, run_id)
                    pause = self._home.look_seconds if parts["run"]["state"] == "running" else HEARTBEAT
                    if any(row["name"] == step for row in parts["steps"]):
                        seen.set()
                except NotThere:
                    parts = {"run": None}
                except CannotRead as error:
                    problems["pipelines"] = str(error)
                for name, value in parts.items():
                    line = encode({name: value})
                    if sent.get(name) != line:
                        sent[name] = line
                        await put(line)
                await put(encode({"synced": True, "problems": problems}))
                await next_changes(listener, pause, of={run_id, ""})

    async def _log(self, run_id: str, step: str, seen: asyncio.Event, tail_lines: int, put: Put) -> None:
        """Send the log of the step, in the same form as replicas' logs, after `seen` was set.

        Each line is sent once, even to a slow page.
        """
        await seen.wait()
        loop = asyncio.get_running_loop()
        tail = StepLogTail(partial(self._home.logs.file, run_id, step), tail_lines=tail_lines)
        try:
            while names_files(run_id, step):  # others, which the store may have, lead elsewhere
                lines, afresh = await loop.run_in_executor(self._readers, tail.read)
                if lines or afresh:
                    await put(encode({"log": {"step": step, "lines": lines, "afresh": afresh}}))
                else:
                    await asyncio.sleep(_LOG_PAUSE)
        except CannotRead as error:
            await put(encode({"log": {"step": step, "problem": str(error)}}))
        await asyncio.Event().wait()  # the rest of the page continues


class StepLogTail:
    """Reads the lines of a log that another process writes.

    Only one thread at a time may call `read`. It opens the file and closes it again. `find` is called at each read. It
    returns the path, and may raise OSError.
    """

    def __init__(self, find: Callable[[], Path], *, tail_lines: int) -> None:
        self._find = find
        self._tail_lines = tail_lines
        self._file: tuple[int, int] | None = None  # device and inode of what it has begun to read
        self._position = 0
        self._rest = 0  # bytes of a line without an end, which were read after the position

    def read(self) -> tuple[list[str], bool]:
        """Return the lines since the last call, at most one piece, and whether the file was replaced.

        At the end of the file, or while there is no file, it returns no lines. If the file was replaced, the page must
        not show earlier lines any more. A last line without a line end is returned only if it has not grown since the
        last call. Links, devices and pipes are not opened. Raises CannotRead.
        """
        before = self._file
        try:
            with open_regular(self._find()) as stream:
                found = os.fstat(stream.fileno())
                self._file = (found.st_dev, found.st_ino)
                begun = self._file == before and found.st_size >= self._position
                if not begun:
                    self._position, self._rest = tail_offset(stream, self._tail_lines), 0
                stream.seek(self._position)
                data = stream.read(_PIECE_BYTES)
        except FileNotFoundError:
            self._file = None
            return [], before is not None
        except OSError as error:
            raise CannotRead(f"the log can't be read: {error.strerror}") from error
        whole = data.rfind(b"\n") + 1
        if not whole and (len(data) >= _MAX_LINE or len(data) == self._rest):
            whole = min(len(data), _MAX_LINE)
        self._position += whole
        self._rest = len(data) - whole
        pieces = data[:whole].removesuffix(b"\n").split(b"\n") if whole else []
        return [piece.decode(errors="replace") for piece in pieces], before is not None and not begun
