"""The types with which a runner reports on a run: the state of each step, the listener, and the outcome of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from tfoperator.launcher import LaunchCancelled, LauncherError, LaunchResult
from tfoperator.pipeline.store.records import RunState


class StepState(StrEnum):
    """The state of a step.

    - CACHED: the outputs of an earlier execution were reused.
    - RETRYABLE: the step failed, but may succeed if the run is resumed.
    - SKIPPED: the step did not run, because another step failed or the run was cancelled.
    - LEFT_OUT: the step did not run, because its condition is false, or because the condition of a step whose output it
      needs is false.
    """

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
        """Whether the steps after this step can run.

        They can run if this step has succeeded, or did not run because a condition is false (LEFT_OUT).
        """
        return self in (StepState.SUCCEEDED, StepState.CACHED, StepState.LEFT_OUT)


class StepView(msgspec.Struct, frozen=True):
    """The current state of a step, with its predecessors in `after`.

    `attempts` is the number of times that the runner has started the step's program, with retries. `attempts` is 0 if
    the outputs of an earlier run were reused.
    """

    name: str
    state: StepState = StepState.WAITING
    after: tuple[str, ...] = ()
    began: datetime | None = None
    ended: datetime | None = None
    attempts: int = 0
    execution_id: int = 0
    message: str = ""


class Listener:
    """The base of listeners, which are notified about a run.

    The methods of this class do nothing. A subclass overrides the methods that it needs. The runner calls `step` in the
    thread that runs the pipeline, and all other methods in any thread.
    """

    def step(self, view: StepView) -> None:
        """Handle a change of a step's state. `view` is the new state."""

    def log(self, step: str, line: str) -> None:
        """Handle a log line of a step."""

    def tell(self, step: str, message: str) -> None:
        """Handle a message of a step's launcher. If `step` is "", the message comes from the runner itself."""


class PipelineResult(msgspec.Struct, frozen=True):
    """A run that has ended. `results` has the outputs of each step that succeeded."""

    run_id: str
    pipeline: str
    state: RunState
    steps: Mapping[str, StepView]
    results: Mapping[str, LaunchResult]
    message: str = ""


class PipelineFailed(LauncherError):
    """At least one step has not succeeded. `retryable` is true if a retry of the same run may succeed."""

    def __init__(self, result: PipelineResult) -> None:
        self.result = result
        self.retryable = all(view.state is not StepState.FAILED for view in result.steps.values())
        super().__init__(f"run {result.run_id} of {result.pipeline} has failed: {result.message}")


class PipelineCancelled(LaunchCancelled):
    """`PipelineRunner.cancel` was called, or SIGINT or SIGTERM came. The running steps were stopped."""

    def __init__(self, result: PipelineResult) -> None:
        self.result = result
        super().__init__(f"run {result.run_id} of {result.pipeline} was cancelled: {result.message}")


def outcome_of(views: Mapping[str, StepView], *, cancelled: bool, unfinished: Sequence[str]) -> tuple[RunState, str]:
    """Return the state of a run, and the reason for this state.

    `cancelled` is True if the run was cancelled. `unfinished` names the steps whose container may still be running: if
    there are any, and not all steps are done, the state is `interrupted`.
    """
    if all(view.state.done for view in views.values()):
        return "succeeded", ""
    bad = (StepState.FAILED, StepState.RETRYABLE, StepState.CANCELLED)
    reasons = [f"{name}: {view.message or view.state}" for name, view in views.items() if view.state in bad]
    message = "; ".join(reasons) or "nothing had begun"
    if unfinished:
        return "interrupted", f"{message} ({', '.join(unfinished)} may still run)"
    return ("cancelled" if cancelled else "failed"), message
