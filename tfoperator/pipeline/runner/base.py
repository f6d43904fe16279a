"""The base of the runners of pipelines, as in the TFX design. A subclass decides when each component is launched."""

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
    """Return a pipeline as plain values. A local `pipeline_root` becomes an absolute path.

    Raises ComponentError if the pipeline is invalid (`graph_of`).
    """
    graph = graph_of(pipeline)
    path = local_path(graph.root)
    return graph if path is None else msgspec.structs.replace(graph, root=str(path.absolute()))


def new_run_id(clock: Clock, random: Random) -> str:
    """Return the id of a new run: the current time and four hexadecimal digits. So the ids sort by time."""
    return f"{clock.now():%Y%m%d-%H%M%S}-{random.getrandbits(16):04x}"


class TfxRunner(BaseComponentRunner):
    """The base for your own runners. Implement `_run(pipeline, component_launcher_infos)`.

    `component_launcher_infos` has an info for each component, in an order in which the components can run.
    `info.make(context).launch()` runs a component. The inputs and outputs of a component have their places below
    `pipeline_root`, and all places contain the same run id. So a component can read the outputs that earlier components
    have written there. `PipelineRunner` also resolves values, conditions and loops, and keeps records.
    """

    def run(self, pipeline: Pipeline | Graph) -> Any:
        """Choose a launcher for each component, make the parent folders of outputs, and return the result of `_run`.

        Before anything runs, the method raises ComponentError if a component can't be launched, if the pipeline has a
        condition or a loop (`check_fixed`), or if a parameter is the value of another component's output. Only
        `PipelineRunner` supports such pipelines.
        """
        graph = absolute_graph(pipeline)
        check_fixed(graph)
        if step := next(
            (candidate.name for candidate in graph.steps if any(map(_is_late, candidate.exec_properties.values()))), ""
        ):
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
        """Return the component, the launcher and the platform config of each step, by step.

        Raises ComponentError if no launcher can launch a component.
        """
        return self.launch_infos([graph.component(step, run_id) for step in graph.steps])

    @abc.abstractmethod
    def _run(self, pipeline: Any, component_launcher_infos: Mapping[str, ComponentLaunchInfo]) -> Any:
        """Run the components. The method `run` returns the result of this method."""


def _is_late(value: Any) -> bool:
    return isinstance(value, Value)


def _local_outputs(infos: Mapping[str, ComponentLaunchInfo]) -> Iterator[Path]:
    for info in infos.values():
        for artifacts in info.component.outputs.values():
            yield from filter(None, (local_path(artifact.uri) for artifact in artifacts))
