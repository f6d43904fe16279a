"""The visible progress of a run: the state of each step, and its listeners."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class StepState(StrEnum):
    """The progress of a step."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CACHED = "cached"
    FAILED = "failed"
    RETRYABLE = "retryable"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    LEFT_OUT = "left out"

    @property
    def done(self) -> bool:
        """Whether steps behind it can run: it has succeeded, or was left out since its condition did not hold."""
        return self in (StepState.SUCCEEDED, StepState.CACHED, StepState.LEFT_OUT)


class StepView(msgspec.Struct, frozen=True):
    """The present state of one step. `attempts` are executions of this launch, 0 for reused outputs."""

    name: str
    state: StepState = StepState.WAITING
    after: tuple[str, ...] = ()
    began: datetime | None = None
    ended: datetime | None = None
    attempts: int = 0
    execution_id: int = 0
    message: str = ""


class Listener:
    """Is notified about a run, and does nothing here: steps' logs are in files in any case. Override what you need.

    `step` is called in the thread that runs the pipeline, the others in any.
    """

    def step(self, view: StepView) -> None:
        """Handle a changed step."""

    def log(self, step: str, line: str) -> None:
        """Handle a log line of a step."""

    def tell(self, step: str, message: str) -> None:
        """Handle a message of a step's launcher, or with "" of the runner itself."""
