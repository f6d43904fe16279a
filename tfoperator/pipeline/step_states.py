"""The state of each step of a recorded run, as people say it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tfoperator.base.durations import human_duration
from tfoperator.pipeline.store import ExecutionRecord, ExecutionState, RunRecord

_STATES = {
    "COMPLETE": "succeeded",
    "CACHED": "cached",
    "FAILED": "failed",
    "CANCELED": "cancelled",
    "RUNNING": "running",
}


def states_of(run: RunRecord, known: Mapping[str, ExecutionState]) -> dict[str, str]:
    """The state of each step, by those of its executions."""
    found = {}
    for name in run.steps:
        not_begun = "waiting" if run.state == "running" else "not run"
        state = _STATES[known[name]] if name in known else not_begun
        found[name] = "interrupted" if state == "running" and run.state != "running" else state
    return found


def step_states(run: RunRecord, known: Mapping[str, ExecutionRecord]) -> dict[str, str]:
    """The same, by its executions."""
    return states_of(run, {name: execution.state for name, execution in known.items()})


def step_notes(run: RunRecord, known: Mapping[str, ExecutionRecord]) -> dict[str, str]:
    """The state of each step, and how long it took."""
    states = step_states(run, known)
    return {name: " ".join([state, _took(known.get(name))]).strip() for name, state in states.items()}


def steps_done(known: Mapping[str, ExecutionState]) -> int:
    """How many steps have succeeded, or were used again."""
    return sum(state in ("COMPLETE", "CACHED") for state in known.values())


def _took(execution: ExecutionRecord | None) -> str:
    if execution is None or execution.began is None or execution.ended is None or execution.state == "CACHED":
        return ""
    return human_duration((execution.ended - execution.began).total_seconds())
