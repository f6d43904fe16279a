"""How a run has ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tfoperator.launcher import LaunchCancelled, LauncherError, LaunchResult
from tfoperator.pipeline.runner.progress import StepState, StepView
from tfoperator.pipeline.store import RunState


class PipelineResult(msgspec.Struct, frozen=True):
    """A run that is over. `results` has what each step that succeeded put out."""

    run_id: str
    pipeline: str
    state: RunState
    steps: Mapping[str, StepView]
    results: Mapping[str, LaunchResult]
    message: str = ""


class PipelineFailed(LauncherError):
    """Not all steps have succeeded. `retryable`: another try of the same run may help."""

    def __init__(self, result: PipelineResult) -> None:
        self.result = result
        states = {view.state for view in result.steps.values()}
        self.retryable = StepState.FAILED not in states
        super().__init__(f"run {result.run_id} of {result.pipeline} has failed: {result.message}")


class PipelineCancelled(LaunchCancelled):
    """`cancel()` was called, or a signal came; what ran was stopped."""

    def __init__(self, result: PipelineResult) -> None:
        self.result = result
        super().__init__(f"run {result.run_id} of {result.pipeline} was cancelled: {result.message}")


def outcome_of(views: Mapping[str, StepView], *, cancelled: bool, unfinished: Sequence[str]) -> tuple[RunState, str]:
    """The state of a run, and why. `unfinished` are steps of which a container may still run."""
    if all(view.state.done for view in views.values()):
        return "succeeded", ""
    bad = (StepState.FAILED, StepState.RETRYABLE, StepState.CANCELLED)
    reasons = [f"{name}: {view.message or view.state}" for name, view in views.items() if view.state in bad]
    message = "; ".join(reasons) or "nothing had begun"
    if unfinished:
        return "interrupted", f"{message} ({', '.join(unfinished)} may still run)"
    return ("cancelled" if cancelled else "failed"), message
