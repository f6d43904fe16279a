"""Imports `tfoperator.ui.pipelines`, and with it SQLAlchemy, only when there are runs to show."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfoperator.ui.pipelines.pages import PipelinePages
    from tfoperator.ui.pipelines.views import FindJob


class PipelineDoor:
    """`pages` is for the event loop's thread; `stop()` once that has ended. `always`: even without runs."""

    def __init__(self, home: Path | str | None, find_job: FindJob, *, always: bool) -> None:
        self._home = home
        self._find_job = find_job
        self._always = always
        self._pages: PipelinePages | None = None

    async def pages(self, executor: Executor) -> PipelinePages | None:
        """Return the pages; None without runs, or if they can't be read without SQLAlchemy."""
        if self._pages is None and self._home is not None:
            made = await asyncio.get_running_loop().run_in_executor(executor, self._make, self._home)
            if self._pages is None:
                self._pages = made
        return self._pages

    def stop(self) -> None:
        """End the pages' threads."""
        if self._pages is not None:
            self._pages.stop()

    def _make(self, home: Path | str) -> PipelinePages | None:
        # `Home` knows the place, but its import is what this avoids. A URL was given explicitly.
        there = self._always or isinstance(home, str) or (home / "metadata.db").exists()
        if not there or find_spec("sqlalchemy") is None:
            return None
        from tfoperator.pipeline import open_home
        from tfoperator.ui.pipelines.pages import PipelinePages

        return PipelinePages(open_home(home), self._find_job)
