"""The page's streams of runs: lines of JSON, first the present state, then changes; and artifacts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from tfoperator.pipeline import Home, MetadataStore, StoreError, lineage_of
from tfoperator.pipeline.home import names_files
from tfoperator.ui.pipelines.board import RunBoard
from tfoperator.ui.pipelines.step_log import StepLogTail
from tfoperator.ui.pipelines.views import FindJob, PipelineRunFacts, artifact_detail, run_detail, step_rows
from tfoperator.ui.problems import CannotRead, NotThere
from tfoperator.ui.streaming import HEARTBEAT, Put, encode, merged, next_changes

T = TypeVar("T")

_READERS = 4
_LOG_PAUSE = 0.5
"""Seconds between two reads at the end of a log."""


class PipelinePages:
    """The runs of a home, for all pages. `find_job` finds the TFJob of the page's API server by UID.

    Streams and `artifact` are for the event loop's thread; `stop()` once they have ended, which closes the home, too.
    """

    def __init__(self, home: Home, find_job: FindJob = lambda _: None) -> None:
        self._home = home
        self._find_job = find_job
        self._board = RunBoard(home)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="ui-pipelines")
        self.place = str(home)
        """The place of the runs, for users."""

    def stop(self) -> None:
        """End every thread."""
        self._board.looks.stop()
        self._readers.shutdown(wait=True, cancel_futures=True)
        self._home.close()

    async def runs(self) -> AsyncGenerator[bytes, None]:
        """Yield all runs, then changes: `{"runs": [...]}`, `{"synced": true}` and `{"runs": [...], "gone": [...]}`."""
        board = self._board
        board.looks.start()
        with board.listeners.listening() as listener:
            known: dict[str, Any] = {}
            while True:
                status, rows = board.status, board.rows
                changed = [row for key, row in rows.items() if known.get(key) != row]
                gone = [key for key in known if key not in rows]
                if changed or gone:
                    yield encode({"runs": changed, "gone": gone})
                known = dict(rows)
                yield encode(status)
                await next_changes(listener)

    def run(self, run_id: str, step: str, tail_lines: int) -> AsyncGenerator[bytes, None]:
        """Yield the parts of a run, each when it has changed, with the log of a step if one is named."""
        self._board.looks.start()
        producers = [lambda put: self._parts(run_id, put)]
        if step:
            producers.append(lambda put: self._log(run_id, step, tail_lines, put))
        return merged(producers)

    def artifact(self, number: str) -> dict[str, Any]:
        """Return an artifact with its lineage; blocks. Raises NotThere, CannotRead."""
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise NotThere("an artifact's id is a number")
        with self._opened() as store:
            found = next((one for one in store.artifacts(number) if one.id == int(number)), None)
            if found is None:
                raise NotThere(f"there is no artifact {number}")
            return artifact_detail(lineage_of(store, found), lineage_of(store, found, downstream=True))

    @contextmanager
    def _opened(self) -> Iterator[MetadataStore]:
        """Read the home, for milliseconds. Raises NotThere, CannotRead."""
        try:
            if not self._home.exists():
                raise NotThere("no pipeline was run here yet")
            yield self._home.reading()
        except StoreError as error:
            raise CannotRead(str(error)) from error

    def _facts(self, run_id: str) -> PipelineRunFacts:
        with self._opened() as store:
            run = store.run(run_id)
            if run is None:
                raise NotThere(f"there is no run {run_id}")
            executions = store.executions(run_id)
            sides = [side for one in executions.values() for side in (one.inputs, one.outputs)]
            numbers = {record.id for side in sides for records in side.values() for record in records}
            known = {step: self._home.known_launch(store, run, step) for step in run.steps}
            launches = {step: launch for step, launch in known.items() if launch is not None}
            return PipelineRunFacts(self._home.seen(run), executions, launches, store.makers(sorted(numbers)))

    async def _parts(self, run_id: str, put: Put) -> None:
        """Send the parts. One that goes on is read periodically: attempts and containers notify nobody."""
        sent: dict[str, bytes] = {}
        with self._board.listeners.listening() as listener:
            while True:
                problems: dict[str, str] = {}
                parts: dict[str, Any] = {}
                pause = HEARTBEAT
                try:
                    parts = await self._in_thread(self._read, run_id)
                    pause = self._home.look_seconds if parts["run"]["state"] == "running" else HEARTBEAT
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

    def _read(self, run_id: str) -> dict[str, Any]:
        facts = self._facts(run_id)
        return {"run": run_detail(facts), "steps": step_rows(facts, self._find_job)}

    async def _log(self, run_id: str, step: str, tail_lines: int, put: Put) -> None:
        """Send the log of a step, in the form of replicas' logs; each line once, even to a slow page."""
        try:
            facts = await self._in_thread(self._facts, run_id)
            if step not in facts.run.steps or not names_files(facts.run.id, step):  # a path may lead elsewhere
                raise NotThere(f"run {facts.run.id} has no step {step!r}")
        except NotThere:
            await asyncio.Event().wait()  # the other producer reports it, until the page leaves
            return
        tail = StepLogTail(partial(self._home.logs.file, run_id, step), tail_lines=tail_lines)
        try:
            while True:
                piece = await self._in_thread(tail.read)
                if piece.lines or piece.afresh:
                    await put(encode({"log": {"step": step, "lines": piece.lines, "afresh": piece.afresh}}))
                else:
                    await asyncio.sleep(_LOG_PAUSE)
        except CannotRead as error:
            await put(encode({"log": {"step": step, "problem": str(error)}}))
            await asyncio.Event().wait()  # the rest of the page continues

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, partial(call, *arguments))
