"""The interface of pipelines for the page's server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from tfoperator.pipeline import Home
from tfoperator.ui.pipelines.board import RunBoard
from tfoperator.ui.pipelines.reading import log_tail, read_artifact, read_run
from tfoperator.ui.pipelines.streams import log_lines, run_list, run_parts
from tfoperator.ui.pipelines.views import FindJob, artifact_detail, run_detail, step_rows
from tfoperator.ui.problems import NotThere
from tfoperator.ui.streaming import Put, merged

T = TypeVar("T")

_READERS = 4


class PipelinePages:
    """The runs of a home, for all pages. `find_job` finds the TFJob of the page's API server by UID.

    Streams and `artifact` are for the event loop's thread; `stop()` once they have ended, which closes the home, too.
    """

    def __init__(self, home: Home, find_job: FindJob = lambda _: None) -> None:
        self._home = home
        self._find_job = find_job
        self._board = RunBoard(home)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="ui-pipelines")

    @property
    def place(self) -> str:
        """The place of the runs, for users."""
        return str(self._home)

    def there(self) -> bool:
        """Return whether there are any runs."""
        return self._home.exists()

    def stop(self) -> None:
        """End every thread."""
        self._board.stop()
        self._readers.shutdown(wait=True, cancel_futures=True)
        self._home.close()

    def runs(self) -> AsyncGenerator[bytes, None]:
        """Yield the list, as it changes."""
        self._board.start()
        return run_list(self._board)

    def run(self, run_id: str, step: str, tail_lines: int) -> AsyncGenerator[bytes, None]:
        """Yield one run during its progress, with the log of a step if one is named."""
        self._board.start()
        parts, pause = partial(self._in_thread, self._parts, run_id), self._home.look_seconds
        producers = [lambda put: run_parts(self._board, run_id, parts, put, pause=pause)]
        if step:
            producers.append(lambda put: self._log(run_id, step, tail_lines, put))
        return merged(producers)

    def artifact(self, number: str) -> dict[str, Any]:
        """Return an artifact with its lineage; blocks. Raises NotThere, CannotRead."""
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise NotThere("an artifact's id is a number")
        return artifact_detail(read_artifact(self._home, int(number)))

    def _parts(self, run_id: str) -> Mapping[str, Any]:
        facts = read_run(self._home, run_id)
        return {
            "run": run_detail(facts),
            "steps": step_rows(facts, self._find_job),
            "goesOn": facts.run.state == "running",
        }

    async def _log(self, run_id: str, step: str, tail_lines: int, put: Put) -> None:
        try:
            facts = await self._in_thread(read_run, self._home, run_id)
            tail = log_tail(self._home, facts.run, step, tail_lines)
        except NotThere:
            await asyncio.Event().wait()  # the other producer reports it, until the page leaves
            return
        await log_lines(step, tail, self._in_thread, put)

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, partial(call, *arguments))
