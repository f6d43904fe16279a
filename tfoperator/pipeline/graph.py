"""A pipeline as plain values: steps, the origin of their inputs, and the order of execution. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import msgspec

from tfoperator.launcher import Artifact, Component, ComponentError, ExecutorClassSpec, ExecutorSpec
from tfoperator.launcher.core import fingerprint


class FromOutside(msgspec.Struct, frozen=True, tag=True):
    """Artifacts made by no step."""

    type_name: str
    artifacts: tuple[Artifact, ...]


class FromStep(msgspec.Struct, frozen=True, tag=True):
    """The output of a step."""

    step: str
    output: str


Source = FromOutside | FromStep


class Step(msgspec.Struct, frozen=True):
    """One component. `outputs` has the type of each."""

    name: str
    kind: str
    executor_spec: ExecutorSpec
    inputs: Mapping[str, Source] = {}
    outputs: Mapping[str, str] = {}
    exec_properties: Mapping[str, Any] = {}

    @property
    def after(self) -> frozenset[str]:
        """The steps of its inputs."""
        return frozenset(source.step for source in self.inputs.values() if isinstance(source, FromStep))


class Graph(msgspec.Struct, frozen=True):
    """All steps, in an order in which they can run."""

    name: str
    root: str
    steps: tuple[Step, ...]

    def step(self, name: str) -> Step:
        """Return the step of this name."""
        return next(step for step in self.steps if step.name == name)

    def output_uri(self, step: str, output: str, run_id: str) -> str:
        """Return the URI of an output of a run: `pipeline_root/component/output/run`."""
        return f"{self.root}/{step}/{output}/{run_id}"

    def component(self, step: Step, run_id: str) -> Component:
        """Return the component to launch, as far as known before the run.

        Inputs have their planned URIs; the driver resolves them.
        """
        inputs = {name: self._expected(source, run_id) for name, source in step.inputs.items()}
        outputs = {name: (Artifact(self.output_uri(step.name, name, run_id)),) for name in step.outputs}
        return Component(step.name, step.executor_spec, inputs, outputs, dict(step.exec_properties))

    def fingerprint(self) -> str:
        """Return a hash of everything that a run does: a run is resumed only with a pipeline of the same hash."""
        return fingerprint(self.name, self.root, [_described(step) for step in self.steps])

    def _expected(self, source: Source, run_id: str) -> tuple[Artifact, ...]:
        if isinstance(source, FromOutside):
            return source.artifacts
        return (Artifact(self.output_uri(source.step, source.output, run_id)),)


def in_order(pipeline: str, steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps, each after its inputs' steps, else in the given order. Raises ComponentError for a cycle."""
    by_name = {step.name: step for step in steps}
    try:
        order = TopologicalSorter({name: sorted(step.after) for name, step in by_name.items()}).static_order()
        return tuple([by_name[name] for name in order])
    except CycleError as error:
        raise ComponentError(
            f"pipeline {pipeline}: its steps wait for each other: {' <- '.join(error.args[1])}"
        ) from None


def ready(graph: Graph, done: Collection[str], begun: Collection[str]) -> list[Step]:
    """Return the steps that can start: not started, and all their inputs' steps are done."""
    return [step for step in graph.steps if step.name not in begun and step.after <= frozenset(done)]


def _described(step: Step) -> Any:
    spec = step.executor_spec
    what = spec.path if isinstance(spec, ExecutorClassSpec) else msgspec.to_builtins(spec)
    inputs = {name: msgspec.to_builtins(source) for name, source in step.inputs.items()}
    return [step.name, what, inputs, dict(step.outputs), dict(step.exec_properties)]
