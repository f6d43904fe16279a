"""The page's streams of pipeline runs.

A stream is a response that consists of lines of JSON: first the current state, and then changes. The stream of a run
can also contain the log of a step. The module also returns artifacts with their lineage.
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
"""The page lists at most this many runs: the newest runs."""
_READ_SECONDS = 10.0
"""If a run is in progress, the server reads the records of runs again after this many seconds, even if no record has
changed. The reason: when the lease of a run expires, the state of the run changes, but its record does not.
"""
_READERS = 4
_LOG_PAUSE = 0.5
"""If a read of a log returns no new lines, the server waits this many seconds before it reads the log again."""
_PIECE_BYTES = 256 << 10
"""The server reads at most this many bytes of a log at once, and sends these bytes in a line of JSON."""
_MAX_LINE = 64 << 10
"""If a line of a log has more than this many bytes, the server sends this many bytes as a line of its own. So a file
without line ends can't fill the memory.
"""


class PipelinePages:
    """The pipeline runs of `home` (a directory or a database), for all browser tabs.

    `find_job` finds a TFJob by its UID, for links to the TFJob's page.

    While tabs are open, a single thread looks for changes every few seconds. It reads the runs if `Database.changes`
    returns another text than before, and every 10 s while a run is in progress. It also checks whether the process of
    each unfinished run (its runner) still lives. PostgreSQL also wakes the thread after each write.

    Call `runs` and `run` only in the thread of the event loop. When the streams have ended, call `stop()`, which also
    closes the home.
    """

    def __init__(self, home: Home, find_job: FindJob = lambda _: None) -> None:
        self._home = home
        self._find_job = find_job
        self._looks = Repetition(self._look, seconds=home.look_seconds, clock=SystemClock(), name="ui-pipeline-runs")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="ui-pipelines")
        self._listeners = Listeners()  # the keys are the ids of changed runs, and "" for a change of the status
        # By id, the newest run first. `_rows` and `_status` are replaced as a whole, so readers need no lock.
        self._rows: Mapping[str, dict[str, Any]] = {}
        self._status: Mapping[str, Any] = {"synced": False, "problems": {}}
        self.place = str(home)
        """A text for users: the directory or URL of the home."""
        # Only the thread of `_look` uses the following fields.
        self._store: MetadataStore | None = None  # None before the first run
        self._mark = ""  # the text of `Database.changes` before the last read of the runs
        self._read_at = Elapsed(SystemClock())
        self._records: list[RunRecord] = []
        self._states: Mapping[str, Mapping[str, ExecutionState]] = {}

    def stop(self) -> None:
        """End all threads."""
        self._looks.stop()
        self._readers.shutdown(wait=True, cancel_futures=True)
        self._home.close()

    async def runs(self) -> AsyncGenerator[bytes, None]:
        """Yield lines with all runs, and then lines with changes.

        `{"runs": [...], "gone": [...]}` contains new and changed runs, and the ids of removed runs. The status
        `{"synced": ..., "problems": ...}` follows each of these lines.
        """
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
        """Yield the two parts of a run, `run` and `steps`, and each part again when it has changed.

        If `step` is the name of a step, also yield the step's log, beginning with its last `tail_lines` lines.
        """
        self._looks.start()
        has_step = asyncio.Event()
        return merged(
            [partial(self._parts, run_id, step, has_step), partial(self._log, run_id, step, has_step, tail_lines)]
        )

    def artifact(self, number: str) -> dict[str, Any]:
        """Return the artifact with the id `number`, and its lineage. The call blocks.

        Raises NotThere if there is no such artifact, and CannotRead if the metadata store can't be read.
        """
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise NotThere("the id of an artifact must be a number")
        with self._opened() as store:
            artifact = next((artifact for artifact in store.artifacts(number) if artifact.id == int(number)), None)
            if artifact is None:
                raise NotThere(f"there is no artifact {number}")
            return artifact_detail(lineage_of(store, artifact), lineage_of(store, artifact, downstream=True))

    # The thread of `_looks` calls the following methods.

    def _look(self) -> float:
        if not self._listeners:
            return self._home.look_seconds
        problem, before = self._read_runs(), self._rows
        # Compute the rows even if the store is unchanged, because a runner may have died.
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
        """Read the runs if the metadata store has changed. While a run is in progress, also read them every 10 s.

        Return the message of an error, or "" if there is no error.
        """
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

    # The threads of `_readers`, or the caller of `artifact`, call the following methods.

    @contextmanager
    def _opened(self) -> Iterator[MetadataStore]:
        """Yield the metadata store with the runs.

        Raises NotThere if there are no runs yet, and CannotRead if the store can't be read.
        """
        try:
            if not self._home.exists():
                raise NotThere("this page has no pipeline runs yet")
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

    # The following methods run in the thread of the event loop.

    async def _parts(self, run_id: str, step: str, has_step: asyncio.Event, put: Put) -> None:
        """Send the parts of a run with `put`, and each part again when it has changed.

        Set `has_step` as soon as the run has the step. Read a run in progress every second or two, because a change of
        the launch records of the run (which name the pod or job of each step) causes no notification.
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
                        has_step.set()
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

    async def _log(self, run_id: str, step: str, has_step: asyncio.Event, tail_lines: int, put: Put) -> None:
        """Wait until `has_step` is set, and send the lines of the step's log with `put`.

        `put` waits until the client has received the previous lines. So a slow client also receives every line.
        """
        await has_step.wait()
        loop = asyncio.get_running_loop()
        tail = StepLogTail(partial(self._home.logs.file, run_id, step), tail_lines=tail_lines)
        try:
            while names_files(run_id, step):  # a name such as `..` in the store would lead to another folder
                lines, afresh = await loop.run_in_executor(self._readers, tail.read)
                if lines or afresh:
                    await put(encode({"log": {"step": step, "lines": lines, "afresh": afresh}}))
                else:
                    await asyncio.sleep(_LOG_PAUSE)
        except CannotRead as error:
            await put(encode({"log": {"step": step, "problem": str(error)}}))
        await asyncio.Event().wait()  # if this method returned, `merged` would end the whole stream


class StepLogTail:
    """Reads the new lines of a log file that another process writes.

    Only one thread at a time may call `read`. Each call of `read` calls `find` for the path of the file (`find` may
    raise OSError), opens the file, and closes it again.
    """

    def __init__(self, find: Callable[[], Path], *, tail_lines: int) -> None:
        self._find = find
        self._tail_lines = tail_lines
        self._file: tuple[int, int] | None = None  # device and inode of the file of the last read
        self._position = 0
        self._rest = 0  # the number of bytes after the position: the last line, which has no line end yet

    def read(self) -> tuple[list[str], bool]:
        """Return the new lines since the last call, and whether the file was replaced, shortened or removed since then.

        If so, the page must remove the earlier lines. A call returns at most 256 KiB, so call the method again
        for more lines. A last line without a line end is returned only if it has not grown since the last call. If the
        file does not exist, there are no lines. Raises CannotRead if the file can't be read. A symbolic link, a device
        and a pipe are never read.
        """
        before = self._file
        try:
            with open_regular(self._find()) as stream:
                status = os.fstat(stream.fileno())
                self._file = (status.st_dev, status.st_ino)
                begun = self._file == before and status.st_size >= self._position
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
