"""Converts pipeline runs, steps and artifacts into dictionaries of limited size, which the page gets as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from tfoperator.launcher.core.record import LaunchRecord
from tfoperator.pipeline import Lineage
from tfoperator.pipeline.drawing import arrange, states_of, steps_done
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, ExecutionState, Maker, RunRecord
from tfoperator.ui.streaming import seconds, short

MAX_VALUES = 200
"""The page shows at most this many properties of an artifact, and this many steps that made or used the artifact. For
each step, the page shows at most this many parameters, inputs and outputs, and this many artifacts of each input or
output.
"""
MAX_DRAWN = 500
"""The page draws the graph of a run only if the run has at most this many steps."""

FindJob = Callable[[str], tuple[str, str] | None]
"""A function that returns the namespace and name of the TFJob with a UID, or None if the page has no such job."""

_PLATFORMS = {"docker": "Docker", "kubernetes": "Pod", "tfjob": "TFJob", "in-process": "In process"}


def run_row(run: RunRecord, executions: Mapping[str, ExecutionRecord | ExecutionState]) -> dict[str, Any]:
    """Return the data of a run that the list of runs shows. `executions` contains the executions, or only their states.

    An execution is the record of a step of the run. The keys of `executions` are the names of steps.
    """
    states = states_of(run, executions)
    running = [name for name, state in states.items() if state == "running"]
    return {
        "key": run.id,
        "pipeline": run.pipeline,
        "state": run.state,
        "message": short(run.message or ", ".join(running[:8])),
        "done": steps_done(states),
        "steps": len(run.steps),
        "began": seconds(run.began),
        "ended": seconds(run.ended),
    }


def run_detail(run: RunRecord, executions: Mapping[str, ExecutionRecord]) -> dict[str, Any]:
    """Return the data of a run that the run's own page shows: the data of `run_row`, and more details.

    In the result, `picture` contains the position of each step in the graph, in pixels. It is None if the run has more
    than `MAX_DRAWN` steps.
    """
    return run_row(run, executions) | {
        "message": short(run.message),
        "root": run.root,
        "source": run.source,
        "parameters": _values(run.parameters),
        "picture": arrange(run.steps) if len(run.steps) <= MAX_DRAWN else None,
    }


def step_rows(
    run: RunRecord,
    executions: Mapping[str, ExecutionRecord],
    launches: Mapping[str, LaunchRecord | None],
    makers: Mapping[int, Maker],
    find_job: FindJob,
) -> list[dict[str, Any]]:
    """Return the data of a run's steps in their order, with the inputs and outputs of each step.

    `executions` and `launches` have the records of the steps, by the name of the step. A launch record names the
    container, pod or TFJob that the launcher has created for the step. `makers` contains the run and
    the step that made an artifact, by the id of the artifact.
    """
    return [
        {
            "name": name,
            "state": state,
            "after": list(run.steps[name]),
            **_execution(executions.get(name), makers),
            **_launch(launches[name], find_job),
        }
        for name, state in states_of(run, executions).items()
    ]


def artifact_detail(origin: Lineage, use: Lineage) -> dict[str, Any]:
    """Return an artifact with its lineage: `origin` is the tree of its ancestors, `use` the tree of its descendants."""
    return {"artifact": _artifact(origin.artifact, {}), "origin": _lineage(origin), "use": _lineage(use)}


def _execution(execution: ExecutionRecord | None, makers: Mapping[int, Maker]) -> dict[str, Any]:
    if execution is None:
        return {"began": None, "ended": None, "message": "", "inputs": {}, "outputs": {}, "parameters": {}}
    again = None
    if execution.state == "CACHED":
        made = (record for records in execution.outputs.values() for record in records)
        again = next((makers[record.id] for record in made if record.id in makers), None)
    return {
        "id": execution.id,
        "began": seconds(execution.began),
        "ended": seconds(execution.ended),
        "message": short(execution.message),
        "image": execution.image_id,
        "parameters": _values(execution.exec_properties),
        "inputs": _side(execution.inputs, makers),
        "outputs": _side(execution.outputs, makers),
        "usedFrom": again,
    }


def _launch(record: LaunchRecord | None, find_job: FindJob) -> dict[str, Any]:
    if record is None:
        return {"attempts": 0, "platform": "", "container": "", "job": None}
    job = find_job(record.uid) if record.kind == "tfjob" and record.uid else None
    return {
        "attempts": record.attempt,
        "platform": _PLATFORMS.get(record.kind, record.kind),
        "container": record.name,
        "job": None if job is None else {"namespace": job[0], "name": job[1]},
    }


def _side(side: Mapping[str, tuple[ArtifactRecord, ...]], makers: Mapping[int, Maker]) -> dict[str, list[Any]]:
    return {
        short(name): [_artifact(record, makers) for record in records[:MAX_VALUES]]
        for name, records in islice(side.items(), MAX_VALUES)
    }


def _artifact(record: ArtifactRecord, makers: Mapping[int, Maker]) -> dict[str, Any]:
    return {
        "id": record.id,
        "type": record.type,
        "uri": short(record.uri),
        "state": record.state,
        "created": seconds(record.created),
        "properties": _values(record.properties),
        "maker": makers.get(record.id),
    }


def _lineage(tree: Lineage) -> dict[str, Any]:
    return {
        "artifact": _artifact(tree.artifact, {}),
        "executions": [
            {
                "id": execution.id,
                "run": execution.run_id,
                "step": execution.step,
                "parameters": _values(execution.exec_properties),
            }
            for execution in tree.executions[:MAX_VALUES]
        ],
        "next": [_lineage(following) for following in tree.next],
        "repeated": tree.repeated,
        "cut": tree.cut,
    }


def _values(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of parameters or properties as texts. A text stays unchanged. Other values become JSON."""
    return {
        short(name): short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
        for name, value in islice(values.items(), MAX_VALUES)
    }
