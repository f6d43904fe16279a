"""Whoever wants to know what happens in a run: a terminal, a pipe, a notebook's cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tfoperator.api.v1.types import TFJob
from tfoperator.kube.event import Event
from tfoperator.kube.objects import Pod
from tfoperator.local.run.container_output import LogChunk
from tfoperator.local.run.results import RunOutcome
from tfoperator.local.usage import Usage


class RunListener(Protocol):
    """Is told of every change. All calls come from the thread that runs the job; what they raise ends the run."""

    def job_changed(self, job: TFJob) -> None:
        """A job has been created or its status has changed."""
        ...

    def pod_changed(self, pod: Pod) -> None:
        """A pod has been created or its status has changed."""
        ...

    def pod_gone(self, pod: Pod) -> None:
        """A pod has been removed."""
        ...

    def event(self, event: Event) -> None:
        """An event was recorded."""
        ...

    shows_every_line: bool
    """Whether it wants each line that containers write, however long that takes; else lines are passed over."""

    def logged(self, chunks: Sequence[LogChunk]) -> None:
        """Containers have written something."""
        ...

    def stopping(self, outcome: RunOutcome) -> None:
        """The run is over, or is to be; what still runs is being stopped."""
        ...

    def page_link(self, url: str) -> None:
        """The page can be opened with this link, once."""
        ...

    shows_usage: bool
    """Whether it wants to know what containers use, every other second; nobody measures for one that doesn't."""

    def used(self, usage: Usage) -> None:
        """What containers use now."""
        ...

    def tick(self) -> None:
        """Some time has passed."""
        ...
