"""Runs of pipelines, their steps and their artifacts, as text and as JSON. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from tfoperator.base.durations import human_duration
from tfoperator.pipeline.drawing import states_of, step_notes, steps_done

if TYPE_CHECKING:
    from tfoperator.launcher.core.record import LaunchRecord
    from tfoperator.pipeline import Lineage, PipelineResult, StepView
    from tfoperator.pipeline.store.records import (
        ArtifactRecord,
        ExecutionRecord,
        ExecutionState,
        RecordedLease,
        RunRecord,
    )

Json = dict[str, Any]
Executions = Mapping[str, "ExecutionRecord"]

Launches = Mapping[str, "LaunchRecord"]

_KINDS = {
    "docker": "container",
    "kubernetes": "pod",
    "tfjob": "TFJob",
    "in-process": "a class that runs inside the launcher's process",
}

RUNS_HEADER = ("RUN", "PIPELINE", "STATE", "STEPS", "AGE", "TOOK", "OWNER")


def run_row(run: RunRecord, states: Mapping[str, ExecutionState], now: datetime) -> tuple[str, ...]:
    """Return the cells of a run in the list of runs. `states` maps each started step to the state of its execution."""
    owner, done = run.owner, steps_done(states_of(run, states))
    took = human_duration((run.ended - run.began).total_seconds()) if run.ended else ""
    age = human_duration((now - run.began).total_seconds())
    who = "" if owner is None else f"{owner.host} (silent)" if owner.overdue else owner.host
    return run.id, run.pipeline, run.state, f"{done}/{len(run.steps)}", age, took, who


def run_report(run: RunRecord, executions: Executions, launches: Launches | None = None) -> Json:
    """Return all data of a run, for `-o json`.

    `launches` has a record of the container of each running step, by the step's name.
    """
    steps = [_step_report(name, state, executions.get(name)) for name, state in states_of(run, executions).items()]
    for step in steps:
        if launch := (launches or {}).get(step["name"]):
            plain = msgspec.to_builtins(launch)
            step["launch"] = {name: plain[name] for name in ("kind", "name", "attempt", "place")}
    held = None
    if (owner := run.owner) is not None:
        held = {
            "host": owner.host,
            "process": owner.process,
            "until": msgspec.to_builtins(owner.end),
            "overdue": owner.overdue,
            "number": owner.term,
        }
    plain = msgspec.to_builtins(run)
    del plain["lease"], plain["step_terms"]
    return {**plain, "steps": steps, "owner": held}


def run_lines(run: RunRecord, executions: Executions, launches: Launches, now: datetime) -> Iterator[str]:
    """Yield the text of `tfoperator pipeline show`.

    `launches` has a record of the container of each running step, by the step's name.
    """
    yield f"run {run.id} of {run.pipeline}: {run.state}" + (f" ({run.message})" if run.message else "")
    if (owner := run.owner) is not None:
        yield f"owner: {owner.host}, process {owner.process}{_lease_words(owner)}"
    if run.parameters:
        yield "parameters: " + ", ".join(f"{name}={value}" for name, value in run.parameters.items())
    for name, note in step_notes(run, executions).items():
        after = f", after {', '.join(run.steps[name])}" if run.steps[name] else ""
        execution = executions.get(name)
        yield f"  {name}: {note}{_begun(execution, now)}{after}"
        if name in launches:
            yield f"    {_launch_words(launches[name])}"
        if execution is None:
            continue
        if execution.message and execution.state != "COMPLETE":
            yield f"    {execution.message}"
        for records in execution.outputs.values():
            for record in records:
                yield f"    -> {_artifact(record)}"


def _begun(execution: ExecutionRecord | None, now: datetime) -> str:
    if execution is None or execution.state != "RUNNING" or execution.began is None:
        return ""
    return f", begun {human_duration((now - execution.began).total_seconds())} ago"


def _lease_words(owner: RecordedLease) -> str:
    """Return the state of the lease that the runner (the process that executes the run) holds, as text.

    If this runner is not the first runner of the run, the text contains the number of runners so far.
    """
    number = f"; this is owner number {owner.term} of this run" if owner.term > 1 else ""
    if owner.overdue:
        late = human_duration(-owner.left)
        return (
            f", did not renew its lease, which expired {late} ago: the process hangs, has ended, or can't reach "
            f"the store{number}"
        )
    return f", whose lease ends at {owner.end:%Y-%m-%d %H:%M:%S} UTC if the process does not renew it{number}"


def _launch_words(launch: LaunchRecord) -> str:
    """Return a line that shows where to find the container of a step."""
    where = "/".join(part for part in (launch.place.get("namespace", ""), launch.name) if part)
    tries = f", attempt {launch.attempt}" if launch.attempt > 1 else ""
    return f"as {_KINDS.get(launch.kind, launch.kind)} {where}".rstrip() + tries


def result_lines(result: PipelineResult) -> Iterator[str]:
    """Yield the summary at the end of a run."""
    done = sum(view.state.done for view in result.steps.values())
    cached = sum(view.state == "cached" for view in result.steps.values())
    used = f", {cached} of them from the cache" if cached else ""
    yield f"run {result.run_id} of {result.pipeline}: {result.state}, {done} of {len(result.steps)} steps done{used}"
    for name, view in result.steps.items():
        if not view.state.done and view.message:
            yield f"  {name}: {view.message}"
        if name in result.results:
            for artifacts in result.results[name].outputs.values():
                for artifact in artifacts:
                    yield f"  {name}: {artifact.uri}"


def result_report(result: PipelineResult) -> Json:
    """Return the result of a run, for `-o json`."""
    steps = []
    for name, view in result.steps.items():
        made = result.results.get(name)
        outputs = {} if made is None else {key: msgspec.to_builtins(list(value)) for key, value in made.outputs.items()}
        steps.append({**msgspec.to_builtins(view), "outputs": outputs})
    return {
        "run": result.run_id,
        "pipeline": result.pipeline,
        "state": result.state,
        "message": result.message,
        "steps": steps,
    }


def view_text(view: StepView, now: datetime) -> str:
    """Return the present state of a step, its duration, and the number of attempts if there are several."""
    parts = [str(view.state)]
    if view.began is not None:
        parts.append(human_duration(((view.ended or now) - view.began).total_seconds()))
    if view.attempts > 1:
        parts.append(f"{view.attempts} attempts")
    return ", ".join(parts)


def lineage_lines(tree: Lineage, depth: int = 0) -> Iterator[str]:
    """Yield a line about an artifact, and below it, indented, lines about the artifacts from which it was made."""
    indent = "  " * depth
    yield f"{indent}{_artifact(tree.artifact)}" + (
        " (see above)" if tree.repeated else " (the rest is left out: the tree is too large)" if tree.cut else ""
    )
    for execution in tree.executions:
        parameters = ", ".join(f"{name}={_in_short(value)}" for name, value in execution.exec_properties.items())
        run = f"run {execution.run_id}" if execution.run_id else "a run whose records were removed"
        yield f"{indent}  by {execution.step} ({run}, execution {execution.id}" + (
            f"; {parameters})" if parameters else ")"
        )
    for following in tree.next:
        yield from lineage_lines(following, depth + 2)


def lineage_report(tree: Lineage) -> Json:
    """Return an artifact with the executions and artifacts from which it was made, for `-o json`."""
    executions = [
        {
            "id": execution.id,
            "run": execution.run_id,
            "step": execution.step,
            "state": execution.state,
            "image": execution.image_id,
            "parameters": execution.exec_properties,
        }
        for execution in tree.executions
    ]
    return {
        "artifact": msgspec.to_builtins(tree.artifact),
        "executions": executions,
        "artifacts": [lineage_report(following) for following in tree.next],
    }


def _step_report(name: str, state: str, execution: ExecutionRecord | None) -> Json:
    if execution is None:
        return {"name": name, "state": state}
    plain: Json = msgspec.to_builtins(execution)
    for unwanted in ("step", "state", "run_id"):
        del plain[unwanted]
    return {"name": name, "state": state, **plain}


_MAX_VALUE = 500
"""The maximum number of characters of a property in the text output. `-o json` prints the whole property."""


def _in_short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}... ({len(text)} characters)"


def _artifact(record: ArtifactRecord) -> str:
    properties = "".join(f" {name}={_in_short(value)}" for name, value in record.properties.items())
    gone = "" if record.state == "LIVE" else f" [{record.state.lower()}]"
    return f"{record.type} {record.id}: {record.uri}{properties}{gone}"
