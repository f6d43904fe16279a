"""What there is to see of a run: the state of each step, and who is told when it changes."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec


class StepState(StrEnum):
    """How far a step has got."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CACHED = "cached"
    FAILED = "failed"
    RETRYABLE = "retryable"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    @property
    def done(self) -> bool:
        """Whether what reads from it can run."""
        return self in (StepState.SUCCEEDED, StepState.CACHED)


class StepView(msgspec.Struct, frozen=True):
    """One step as it is now. `attempts` are executions of this launch, 0 for outputs that were used again."""

    name: str
    state: StepState = StepState.WAITING
    after: tuple[str, ...] = ()
    began: datetime | None = None
    ended: datetime | None = None
    attempts: int = 0
    execution_id: int = 0
    message: str = ""


class Listener(Protocol):
    """Is told of a run. `step` comes from the thread that runs the pipeline, the others from any."""

    def step(self, view: StepView) -> None:
        """A step has changed."""
        ...

    def log(self, step: str, line: str) -> None:
        """A step has logged a line."""
        ...

    def tell(self, step: str, message: str) -> None:
        """The launcher of a step, or with "" the runner itself, says something."""
        ...


class Silent:
    """A listener that does nothing: steps' logs are in files in any case."""

    def step(self, view: StepView) -> None:
        """See `Listener`."""

    def log(self, step: str, line: str) -> None:
        """See `Listener`."""

    def tell(self, step: str, message: str) -> None:
        """See `Listener`."""
