"""The record of a run: as it begins, and as it goes on after an interruption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.launcher import ComponentError, LaunchContext
from tfoperator.pipeline.graph import Graph
from tfoperator.pipeline.home import ORCHESTRATOR, Home, new_run_id
from tfoperator.pipeline.store import MetadataStore, RunRecord


def new_run(
    graph: Graph,
    source: str,
    parameters: Mapping[str, Any] | None,
    place: Mapping[str, str] | None,
    run_id: str,
    context: LaunchContext,
) -> RunRecord:
    """The record of a run that begins now; without `run_id` it gets an id of its own."""
    now = context.clock.now()
    return RunRecord(
        run_id or new_run_id(now, context.random),
        graph.name,
        "running",
        graph.root,
        graph.fingerprint(),
        now,
        steps={step.name: tuple(sorted(step.after)) for step in graph.steps},
        source=source,
        parameters=_plain(parameters or {}),
        place=dict(place or {}),
    )


def resumed_run(home: Home, store: MetadataStore, graph: Graph, wanted: str, orchestrator: str = "") -> RunRecord:
    """The record of the run `wanted`, which goes on. Raises ComponentError if it was not begun as this pipeline."""
    run = home.find(store, wanted, graph.name)
    if run.place.get(ORCHESTRATOR, "") != orchestrator:
        raise ComponentError(f"run {run.id} is {run.place.get(ORCHESTRATOR) or 'a runner'}'s, which goes on with it")
    if (run.pipeline, run.fingerprint) != (graph.name, graph.fingerprint()):
        raise ComponentError(
            f"run {run.id} was of another pipeline, or of other parameters: go on with what it was begun with, or "
            "start a new run, which uses again what is the same"
        )
    return going_on(run)


def going_on(run: RunRecord) -> RunRecord:
    """The same run, which is worked on again."""
    return msgspec.structs.replace(run, state="running", ended=None, message="")


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has them; what JSON has not, such as a path, as text."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(parameters, enc_hook=str))
    return plain
