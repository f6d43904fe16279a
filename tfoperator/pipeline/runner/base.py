"""The base of runners of pipelines, as the TFX design has it: a subclass gets the launcher of each component."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.base.files import local_path
from tfoperator.launcher import BaseComponentRunner, ComponentError, ComponentLaunchInfo
from tfoperator.pipeline.dsl.pipeline import Pipeline, graph_of
from tfoperator.pipeline.graph import Graph, check_fixed
from tfoperator.pipeline.values import Value

_LAUNCHES = Path(".tfoperator", "launches")


def absolute_graph(pipeline: Pipeline | Graph) -> Graph:
    """Return a pipeline as plain values, with an absolute path of its root. Raises ComponentError."""
    graph = graph_of(pipeline)
    path = local_path(graph.root)
    return graph if path is None else msgspec.structs.replace(graph, root=str(path.absolute()))


def new_run_id(clock: Clock, random: Random) -> str:
    """Return the id of a new run: the time, so that ids sort by it, and four digits."""
    return f"{clock.now():%Y%m%d-%H%M%S}-{random.getrandbits(16):04x}"


class TfxRunner(BaseComponentRunner):
    """Base of your own runners: implement `_run(pipeline, component_launcher_infos)`.

    The infos are by component, in an order in which they can run. `info.make(context).launch()` runs a component. Its
    inputs and outputs have their places below `pipeline_root`, with an id of this run: a component reads the outputs
    that the components before it have written there. `PipelineRunner` resolves values, conditions and loops beyond
    that, and keeps records.
    """

    def run(self, pipeline: Pipeline | Graph) -> Any:
        """Choose a launcher for each component, make the folders around the outputs, and return the result of `_run`.

        Raises ComponentError, before anything runs, if a component can't be launched, or has to wait for values.
        """
        graph = absolute_graph(pipeline)
        check_fixed(graph)
        if step := next((one.name for one in graph.steps if any(map(_is_late, one.exec_properties.values()))), ""):
            raise ComponentError(
                f"pipeline {graph.name}: a parameter of step {step} is the output of another step: use a runner that "
                "keeps records, such as PipelineRunner"
            )
        run_id = new_run_id(SystemClock(), Random())
        infos = {
            name: msgspec.structs.replace(info, work_dir=_LAUNCHES / run_id / name)
            for name, info in self.infos_of(graph, run_id).items()
        }
        for info in infos.values():
            info.make().check()
        for path in _local_outputs(infos):
            path.parent.mkdir(parents=True, exist_ok=True)
        return self._run(pipeline, infos)

    def infos_of(self, graph: Graph, run_id: str) -> dict[str, ComponentLaunchInfo]:
        """Return by step the launchers of a run, and their configs. Raises ComponentError."""
        return self.launch_infos([graph.component(step, run_id) for step in graph.steps])

    @abc.abstractmethod
    def _run(self, pipeline: Any, component_launcher_infos: Mapping[str, ComponentLaunchInfo]) -> Any:
        """Run the components, and return the result of `run`."""


def _is_late(value: Any) -> bool:
    return isinstance(value, Value)


def _local_outputs(infos: Mapping[str, ComponentLaunchInfo]) -> Iterator[Path]:
    for info in infos.values():
        for artifacts in info.component.outputs.values():
            yield from filter(None, (local_path(one.uri) for one in artifacts))
