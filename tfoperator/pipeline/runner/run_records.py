"""The record of a run: at its start, after an interruption, and at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from tfoperator.launcher import ComponentError, LaunchCancelled, LaunchContext, LauncherError, LaunchResult
from tfoperator.pipeline.graph import Graph
from tfoperator.pipeline.home import ORCHESTRATOR, Home
from tfoperator.pipeline.runner.progress import StepState, StepView
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import RunRecord, RunState


class PipelineResult(msgspec.Struct, frozen=True):
    """An ended run. `results` has the outputs of each step that succeeded."""

    run_id: str
    pipeline: str
    state: RunState
    steps: Mapping[str, StepView]
    results: Mapping[str, LaunchResult]
    message: str = ""


class PipelineFailed(LauncherError):
    """Not all steps have succeeded. `retryable`: a retry of the same run may help."""

    def __init__(self, result: PipelineResult) -> None:
        self.result = result
        self.retryable = all(view.state is not StepState.FAILED for view in result.steps.values())
        super().__init__(f"run {result.run_id} of {result.pipeline} has failed: {result.message}")


class PipelineCancelled(LaunchCancelled):
    """`cancel()` was called, or a signal came; the running steps were stopped."""

    def __init__(self, result: PipelineResult) -> None:
        self.result = result
        super().__init__(f"run {result.run_id} of {result.pipeline} was cancelled: {result.message}")


def outcome_of(views: Mapping[str, StepView], *, cancelled: bool, unfinished: Sequence[str]) -> tuple[RunState, str]:
    """Return the state of a run, and the reason. `unfinished` are steps whose container may still run."""
    if all(view.state.done for view in views.values()):
        return "succeeded", ""
    bad = (StepState.FAILED, StepState.RETRYABLE, StepState.CANCELLED)
    reasons = [f"{name}: {view.message or view.state}" for name, view in views.items() if view.state in bad]
    message = "; ".join(reasons) or "nothing had begun"
    if unfinished:
        return "interrupted", f"{message} ({', '.join(unfinished)} may still run)"
    return ("cancelled" if cancelled else "failed"), message


class RunOrigin(TypedDict, total=False):
    """What a new run is recorded with: its file, its parameters, and the address of its platform."""

    source: str
    parameters: Mapping[str, Any]
    place: Mapping[str, str]


def new_run(
    graph: Graph,
    run_id: str,
    context: LaunchContext,
    *,
    source: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    place: Mapping[str, str] | None = None,
) -> RunRecord:
    """Return the record of a new run. Without `run_id` its id is the time, so that ids sort by it, and four digits."""
    now = context.clock.now()
    return RunRecord(
        run_id or f"{now:%Y%m%d-%H%M%S}-{context.random.getrandbits(16):04x}",
        graph.name,
        "running",
        graph.root,
        graph.fingerprint(),
        now,
        steps={step.name: tuple(sorted(step.after)) for step in graph.steps},
        source=source or "",
        parameters=msgspec.to_builtins(parameters or {}, enc_hook=str),
        place=dict(place or {}),
    )


def resumed_run(home: Home, store: MetadataStore, wanted: str, new: RunRecord) -> RunRecord:
    """Return the record of the run `wanted`, to resume it. Raises ComponentError if it would be another one `new`."""
    run = home.find(store, wanted, new.pipeline)
    if run.place.get(ORCHESTRATOR) != new.place.get(ORCHESTRATOR):
        raise ComponentError(f"run {run.id} is {run.place.get(ORCHESTRATOR) or 'a runner'}'s, which goes on with it")
    if (run.pipeline, run.fingerprint) != (new.pipeline, new.fingerprint):
        raise ComponentError(
            f"run {run.id} was of another pipeline, or of other parameters: go on with what it was begun with, or "
            "start a new run, which uses again what is the same"
        )
    return run
