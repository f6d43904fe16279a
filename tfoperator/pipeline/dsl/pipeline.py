"""A pipeline: its components, and a root folder for their outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from tfoperator.launcher import ComponentError
from tfoperator.pipeline.dsl.component import BaseComponent, Channel, ForEach
from tfoperator.pipeline.dsl.standard_artifacts import type_name
from tfoperator.pipeline.graph import FromOutside, Graph, Loop, Source, Step, made_graph
from tfoperator.pipeline.values import COLLECT, ITEM, OUTPUT, Value, mapped


class Pipeline(msgspec.Struct, frozen=True):
    """A pipeline. Its components may be in any order: their channels determine the order of execution.

    `pipeline_root` is the place of the outputs: a directory, or the URI of a directory. With `enable_cache`, a step
    does not run if an earlier successful execution of the step had the same image (by digest), inputs and parameters.
    The outputs of this execution are reused.
    """

    pipeline_name: str
    pipeline_root: str
    components: Sequence[BaseComponent]
    enable_cache: bool = False


def graph_of(pipeline: Pipeline | Graph) -> Graph:
    """Return the pipeline as plain values. The steps are in an order in which they can run.

    Raises ComponentError if the pipeline is invalid, for example if steps wait for each other.
    """
    if isinstance(pipeline, Graph):
        return pipeline
    if not pipeline.pipeline_root:
        raise ComponentError(f"pipeline {pipeline.pipeline_name} has no pipeline_root: set the place for its outputs")
    if not pipeline.components:
        raise ComponentError(f"pipeline {pipeline.pipeline_name} has no components")
    loops = _Loops(pipeline)
    steps = [_step(component, loops) for component in pipeline.components]
    return made_graph(pipeline.pipeline_name, pipeline.pipeline_root, steps, enable_cache=pipeline.enable_cache)


def _step(component: BaseComponent, loops: _Loops) -> Step:
    own = loops.around(component)
    placed = partial(loops.placed, component, own)
    inputs = {name: _source(component, name, channel, placed) for name, channel in component.inputs.items()}
    outputs = {name: type_name(parameter.type) for name, parameter in component.spec.OUTPUTS.items()}
    return Step(
        component.id,
        type(component).__name__,
        component.executor_spec,
        inputs,
        outputs,
        {name: placed(value) for name, value in component.exec_properties.items()},
        tuple([placed(condition) for condition in component.conditions]),
        tuple([loops.plain(component, loop) for loop in own]),
        retry=component.retry_policy,
    )


def _source(component: BaseComponent, name: str, channel: Channel, placed: Callable[[Any], Any]) -> Source:
    if channel.choices:
        return Value("first", tuple([_source(component, name, choice, placed) for choice in channel.choices]))
    if channel.producer is None:
        if not channel.artifacts:
            raise ComponentError(
                f"{component.id}: its input {name!r} has no source: connect it to an output, or give its channel a uri"
            )
        return FromOutside(channel.type_name, channel.artifacts)
    source: Value = placed(Value(OUTPUT, (channel.producer, channel.output)))
    return source


class _Loops:
    """The loops of a pipeline. A ForEach has no name, so the graph gives the names `loop-1`, `loop-2` ..."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._names: dict[int, str] = {}

    def around(self, component: BaseComponent) -> list[ForEach]:
        """Return the loops that contain a component, the outer loops first."""
        loops: list[ForEach] = []
        for value in (*component.exec_properties.values(), *component.conditions):
            loops += self._of(value)
        for loop in component.loops:
            loops += [*self._of(loop.items, of_items=True), loop]
        return list(dict.fromkeys(loops))

    def plain(self, component: BaseComponent, loop: ForEach) -> Loop:
        """Convert `loop` to a `Loop` of the graph, for the step that is made from `component`."""
        name = self._names.setdefault(id(loop), f"loop-{len(self._names) + 1}")
        items = self.placed(component, self._of(loop.items, of_items=True), loop.items)
        return Loop(name, items if isinstance(items, Value) else list(items), loop.limit)

    def placed(self, component: BaseComponent, own: list[ForEach], value: Any) -> Any:
        """Return `value` with the names of steps and loops in place of the Python objects.

        `own` are the loops around `component`, which reads the value. If the component that makes the value is in loops
        that are not in `own`, the result is a list with the value of each iteration.
        """

        def change(operation: Value) -> Value:
            if operation.op == ITEM:
                return Value(ITEM, (self.plain(component, operation.args[0]).name,))
            producer, output = operation.args
            if not any(member is producer for member in self._pipeline.components):
                raise ComponentError(
                    f"{component.id}: reads an output of {producer.id}, which is not in the pipeline "
                    f"{self._pipeline.pipeline_name}: add {producer.id} to the components of the pipeline"
                )
            theirs, source = self.around(producer), Value(OUTPUT, (producer.id, output))
            shared = next((at for at, loop in enumerate(theirs) if own[at : at + 1] != [loop]), len(theirs))
            for depth in range(len(theirs) - 1, shared - 1, -1):
                source = Value(COLLECT, (depth, self.plain(component, theirs[depth]), source))
            return source

        return mapped(value, change)

    def _of(self, value: Any, *, of_items: bool = False) -> list[ForEach]:
        """Return the loops on whose current item a value depends.

        If the value is the items of a loop, set `of_items`: the result then also contains the loops around the
        component that makes the items.
        """
        if not isinstance(value, Value):
            return []
        if value.op == OUTPUT and of_items:
            return self.around(value.args[0])
        if value.op == ITEM:
            return [*self._of(value.args[0].items, of_items=True), value.args[0]]
        return [loop for argument in value.args for loop in self._of(argument, of_items=of_items)]
