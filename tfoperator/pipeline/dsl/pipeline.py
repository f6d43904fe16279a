"""A pipeline: components, and a root for their outputs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tfoperator.launcher import Component, ComponentError, ExecutorSpec
from tfoperator.pipeline.dsl.component import BaseComponent, Channel
from tfoperator.pipeline.dsl.standard_artifacts import type_name
from tfoperator.pipeline.graph import FromOutside, FromStep, Graph, Source, Step, in_order


class Pipeline(msgspec.Struct, frozen=True):
    """Components in any order; their channels determine the order of execution.

    `pipeline_root` is the place of outputs: a directory, or its URI. With `enable_cache` a step whose image (by
    digest), inputs and parameters equal those of an earlier success is not run again.
    """

    pipeline_name: str
    pipeline_root: str
    components: Sequence[BaseComponent]
    enable_cache: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.pipeline_name


def graph_of(pipeline: Pipeline) -> Graph:
    """Return the pipeline as plain values, in an order in which it can run. Raises ComponentError."""
    Component(pipeline.pipeline_name, ExecutorSpec())  # names follow the same rules as those of components
    if not pipeline.pipeline_root:
        raise ComponentError(f"pipeline {pipeline.pipeline_name} has no pipeline_root: where do outputs go?")
    if not pipeline.components:
        raise ComponentError(f"pipeline {pipeline.pipeline_name} has no components")
    names = [component.id for component in pipeline.components]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ComponentError(
            f"pipeline {pipeline.pipeline_name}: there is more than one {', '.join(twice)}: tell them apart by "
            "instance_name, or with_id"
        )
    if alike := sorted(name for name in names if [one.casefold() for one in names].count(name.casefold()) > 1):
        raise ComponentError(
            f"pipeline {pipeline.pipeline_name}: {', '.join(alike)} differ in case only, and would share their records "
            "on file systems where case doesn't count (macOS): tell them apart by instance_name, or with_id"
        )
    steps = [_step(pipeline, component) for component in pipeline.components]
    return Graph(pipeline.pipeline_name, pipeline.pipeline_root.rstrip("/"), in_order(pipeline.pipeline_name, steps))


def _step(pipeline: Pipeline, component: BaseComponent) -> Step:
    inputs = {name: _source(pipeline, component, name, channel) for name, channel in component.inputs.items()}
    outputs = {name: type_name(parameter.type) for name, parameter in component.spec.OUTPUTS.items()}
    Component(component.id, component.executor_spec, exec_properties=component.exec_properties)  # checks it
    return Step(
        component.id,
        type(component).__name__,
        component.executor_spec,
        inputs,
        outputs,
        dict(component.exec_properties),
    )


def _source(pipeline: Pipeline, component: BaseComponent, name: str, channel: Channel) -> Source:
    if channel.producer is None:
        if not channel.artifacts:
            raise ComponentError(f"{component.id}: nothing comes by its input {name!r}: a channel needs a uri")
        return FromOutside(channel.type_name, channel.artifacts)
    if not any(one is channel.producer for one in pipeline.components):
        raise ComponentError(
            f"{component.id}: its input {name!r} comes from {channel.producer.id}, which is not in the pipeline "
            f"{pipeline.pipeline_name}"
        )
    return FromStep(channel.producer.id, channel.output)
