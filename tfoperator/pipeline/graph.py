"""A pipeline as plain values: its steps, the sources of their inputs, and the order of execution.

The module does no I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any

import msgspec

from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.launcher import Artifact, Component, ComponentError, ExecutorClassSpec, ExecutorSpec, RetryPolicy
from tfoperator.launcher.core.metadata import fingerprint
from tfoperator.pipeline.values import (
    COLLECT,
    ITEM,
    OUTPUT,
    STATUS,
    LeftOut,
    NotPutOut,
    NotYet,
    Value,
    evaluate,
    mapped,
    sources,
)

MAX_ITEMS = 1000
"""Maximum number of items of a loop."""
MAX_STEPS = 10_000
_MAX_NAME = 255
"""The maximum number of characters of the name of a step in the metadata store: `PIPELINE.STEP`, with the numbers of
iterations.
"""


class FromOutside(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Artifacts from outside of the pipeline.

    If `uri` is set (a text or a `Value`), there is a single artifact with this URI. This artifact has the given
    `properties`. If `properties` is None, it has the properties of the first artifact in `artifacts`. Without `uri`,
    the artifacts are `artifacts`.
    """

    type_name: str
    artifacts: tuple[Artifact, ...]
    uri: Any = None
    properties: Any = None


Source = FromOutside | Value
"""The source of an input. A `Value` is the output of a step, or a choice (`first`) or a list of such outputs."""


class Loop(msgspec.Struct, frozen=True):
    """A loop: its steps run once for each item of `items`, a list or a `Value`.

    At most `limit` iterations run in parallel (0: no limit).
    """

    name: str
    items: Any
    limit: int = 0


class Step(msgspec.Struct, frozen=True):
    """A component of a pipeline as a plain value. A part that is known only during the run is a `Value`.

    - `outputs` has the type of each output, and `properties` the planned properties of each output.
    - `exec_properties` are the parameters.
    - The step is skipped unless all conditions in `when` hold.
    - `behind` names steps that must end first, in addition to the steps whose outputs this step uses.
    - With `always`, the step runs even if the steps before it fail, except the steps in `needs`: these must succeed.
    - `settings` are the resources and the Kubernetes options of the step, by name.
    - `report` is the JSON document of a program that runs before the step. The parameters and properties in this
      document replace the planned parameters and properties.

    A step that has `loops` (the outermost loop first) is a pattern: `Unfolded` makes a step from the pattern for each
    iteration. The new step has the pattern's name in `pattern`, and the index of its item in each loop in `at`.
    """

    name: str
    kind: str
    executor_spec: ExecutorSpec
    inputs: Mapping[str, Source] = {}
    outputs: Mapping[str, str] = {}
    exec_properties: Mapping[str, Any] = {}
    when: tuple[Any, ...] = ()
    loops: tuple[Loop, ...] = ()
    behind: tuple[str, ...] = ()
    always: bool = False
    needs: tuple[str, ...] = ()
    retry: RetryPolicy | None = None
    cache: bool = True
    settings: Mapping[str, Any] = {}
    properties: Mapping[str, Mapping[str, Any]] = {}
    report: Any = None
    pattern: str = ""
    at: tuple[int, ...] = ()

    @property
    def after(self) -> frozenset[str]:
        """The steps that must end before this step starts."""
        inputs = [
            value
            for source in self.inputs.values()
            for value in ((source.uri, source.properties) if isinstance(source, FromOutside) else (source,))
        ]
        items = [] if self.at else [loop.items for loop in self.loops]
        values = (
            *inputs,
            *self.exec_properties.values(),
            *self.when,
            *items,
            *self.settings.values(),
            self.report,
        )
        return frozenset([*self.behind, *(step for value in values for step in sources(value))])


class Graph(msgspec.Struct, frozen=True):
    """All steps of a pipeline, in an order in which they can run."""

    name: str
    root: str
    steps: tuple[Step, ...]
    enable_cache: bool = False

    def output_uri(self, step: str, output: str, run_id: str) -> str:
        """Return the URI of an output of a run: `pipeline_root/component/output/run`."""
        return f"{self.root.rstrip('/')}/{step}/{output}/{run_id}"

    def component(self, step: Step, run_id: str) -> Component:
        """Return the component to launch, as far as it is known before the run.

        Inputs have their planned URIs. A parameter that is known only during the run is a text that shows its source,
        such as `train.accuracy`. When the step begins, the driver replaces these URIs and texts.
        """
        inputs = {name: self._expected(source, run_id) for name, source in step.inputs.items()}
        outputs = {name: (Artifact(self.output_uri(step.name, name, run_id)),) for name in step.outputs}
        exec_properties = {
            name: str(value) if isinstance(value, Value) else value for name, value in step.exec_properties.items()
        }
        return Component(step.name, step.executor_spec, inputs, outputs, exec_properties)

    def fingerprint(self) -> str:
        """Return a hash of the pipeline: its name, its root, and everything that determines the work of its steps.

        A run can be resumed only with a pipeline that has the same hash.
        """
        return fingerprint(self.name, self.root, [_described(step) for step in self.steps])

    def _expected(self, source: Source, run_id: str) -> tuple[Artifact, ...]:
        if isinstance(source, FromOutside):
            return source.artifacts if source.uri is None else (Artifact(str(source.uri)),)
        uri = self.output_uri(source.args[0], source.args[1], run_id) if source.op == OUTPUT else str(source)
        return (Artifact(uri),)


def check_fixed(graph: Graph) -> None:
    """Raise ComponentError for a pipeline that Argo and Airflow can't run.

    Such a pipeline has a condition, a loop, settings that come from other steps, or a step that also runs after
    failures. Argo and Airflow can't run it, because they get the list of steps before the run.
    """
    steps = (step for step in graph.steps if step.when or step.loops or step.always or _is_late(step))
    if step := next(steps, None):
        raise ComponentError(
            f"pipeline {graph.name}: step {step.name} has a condition or a loop, has settings that come from another "
            "step, or runs after failures. An orchestrator can't run such a pipeline: use tfoperator pipeline run"
        )


def _is_late(step: Step) -> bool:
    return any(isinstance(setting, Value) for setting in step.settings.values())


def made_graph(name: str, root: str, steps: Sequence[Step], *, enable_cache: bool) -> Graph:
    """Return a graph that consists of these steps.

    Each step comes after the steps that must end before it (`Step.after`). Apart from this, the given order is kept.
    Raises ComponentError for a cycle. Also raises ComponentError if a name is invalid, if two names differ only in
    upper and lower case, or if an iteration of a loop (`train.0`) would have the name of another step.
    """
    _check_names(name, steps)
    by_name = {step.name: step for step in steps}
    order = names_in_order(f"pipeline {name}", {name: step.after for name, step in by_name.items()})
    return Graph(name, root.rstrip("/") or root[:1], tuple([by_name[name] for name in order]), enable_cache)


def names_in_order(where: str, before: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the names in an order in which each name comes after its predecessors in `before`.

    Apart from this, the given order is kept. Raises ComponentError for a cycle; the message begins with `where`.
    """
    try:
        return list(TopologicalSorter({name: sorted(others) for name, others in before.items()}).static_order())
    except CycleError as error:
        raise ComponentError(f"{where}: its steps wait for each other: {' <- '.join(error.args[1])}") from None


def _check_names(pipeline: str, steps: Sequence[Step]) -> None:
    Component(pipeline, ExecutorSpec())  # raises ComponentError if the name is not valid as a component's name
    count = Counter(step.name.casefold() for step in steps)  # names of log files: macOS ignores upper and lower case
    if alike := sorted({step.name for step in steps if count[step.name.casefold()] > 1}):
        raise ComponentError(
            f"pipeline {pipeline}: several steps are named {', '.join(alike)} (upper and lower case count as equal): "
            "give them different names with instance_name, or with_id"
        )
    depths = {step.name.casefold(): len(step.loops) for step in steps}
    for step in steps:
        Component(step.name, step.executor_spec, exec_properties=step.exec_properties)  # raises if a name is invalid
        longest = _name(f"{pipeline}.{step.name}", (MAX_ITEMS - 1,) * len(step.loops))
        if len(longest) > _MAX_NAME:
            raise ComponentError(
                f"pipeline {pipeline}: its name and the name of its step {step.name} have {len(longest)} characters "
                f"together, but at most {_MAX_NAME} are allowed: shorten one of the names"
            )
        name, numbers = step.name.casefold(), len(step.loops)
        while name.rpartition(".")[2].isdecimal():
            name, numbers = name.rpartition(".")[0], numbers + 1
            if depths.get(name) == numbers:
                raise ComponentError(
                    f"pipeline {pipeline}: step {step.name}: an iteration of step {name} can have the same name: "
                    "rename one of the steps"
                )


def ready(
    steps: Iterable[Step],
    after: Mapping[str, Collection[str]],
    done: Collection[str],
    ended: Collection[str] | None = None,
) -> list[Step]:
    """Return the steps that can start: they have not ended, and all their predecessors in `after` are done.

    `done` has the steps after which other steps can run. `ended` has these steps, and all other steps that have ended
    or will not start; its default is `done`. A step with `always` can start when its predecessors have ended, and when
    the steps in `needs` are done. If a loop has a limit, an iteration can start only when fewer than `limit` of the
    earlier iterations are unfinished.
    """
    done = frozenset(done)
    ended = done if ended is None else frozenset(ended)
    startable = []
    open_before: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    for step in steps:
        late = False
        for depth, loop in enumerate(step.loops[: len(step.at)]):
            others = open_before.setdefault((loop.name, step.at[:depth]), set())
            late = late or bool(loop.limit and sum(other < step.at[depth] for other in others) >= loop.limit)
            if step.name not in ended:
                others.add(step.at[depth])
        waits = step.name not in ended and not late and (step.at or not step.loops)
        lenient = step.always and done.issuperset(step.needs)
        if waits and (ended if lenient else done).issuperset(after[step.name]):
            startable.append(step)
    return startable


def hopeless(
    steps: Iterable[Step], after: Mapping[str, Collection[str]], done: Collection[str], ended: Collection[str]
) -> list[Step]:
    """Return the steps that have not ended and can never start, because a predecessor has ended without success.

    `done` and `ended` are as in `ready`. For a step with `always`, only the predecessors in `needs` count.
    """
    bad = frozenset(ended).difference(done)
    return [
        step
        for step in steps
        if step.name not in ended and not bad.isdisjoint(step.needs if step.always else after[step.name])
    ]


class Unfolded:
    """The steps of a graph, with a step for each iteration of each loop whose items are known.

    While the items of a loop are not known, `steps` has the pattern (the step in the graph) in place of its iterations.
    The pattern can't start. `wrong` has a message for each step whose loop has invalid items. The constructor takes
    `lookup`, a function that returns the result of a `Value` (see `evaluate`).
    """

    def __init__(self, graph: Graph, lookup: Callable[[Value], Any]) -> None:
        self.steps: list[Step] = []
        self.wrong: dict[str, str] = {}
        self._lookup = lookup
        self._items: dict[tuple[str, tuple[int, ...]], list[Any]] = {}
        self._made: dict[str, list[Step]] = {}
        self._loops = {step.name: [loop.name for loop in step.loops] for step in graph.steps}
        self._behind = {step.name: step.behind for step in graph.steps}
        for step in graph.steps:
            self._made[step.name] = made = self._iterations(step)
            self.steps += made

    def after(self, step: Step) -> list[str]:
        """Return the names of the steps that must end before a step of `steps` starts.

        A pattern names other patterns. Their iterations take the place of these patterns, if they are known.
        """
        made = {name: [iteration.name for iteration in self._made.get(name, ())] for name in step.after}
        return sorted({one for name, names in made.items() for one in (names if name in self._made else [name])})

    def _iterations(self, step: Step) -> list[Step]:
        try:
            paths: list[tuple[int, ...]] = [()]
            for depth, loop in enumerate(step.loops):
                paths = [(*path, at) for path in paths for at in range(len(self._of(step.loops[:depth], loop, path)))]
            if step.loops and len(self.steps) + len(paths) > MAX_STEPS:
                raise ComponentError(f"the loops of the pipeline produce more than {MAX_STEPS} steps")
            return [self._made_at(step, path) for path in paths]
        except NotYet:
            return [step]
        except ComponentError as error:
            self.wrong[step.name] = str(error)
            return [step]

    def _of(self, outer: tuple[Loop, ...], loop: Loop, path: tuple[int, ...]) -> list[Any]:
        """Return the items of a loop in one iteration of the loops around it (`outer`).

        `path` has the index of the iteration in each of these loops. The list is empty if the step that makes the items
        was skipped. Raises NotYet if the step has not succeeded, and ComponentError if the items are not a list.
        """
        if (loop.name, path) not in self._items:
            try:
                items = evaluate(self._placed(loop.items, outer, path), self._lookup)
            except NotPutOut as error:
                raise NotYet(str(error)) from None  # the pattern of the loop stays in `steps`, and is skipped
            except LeftOut:
                items = []
            if isinstance(items, str):
                with suppress(*UNDECODABLE):  # a value that is no JSON is no list, either
                    items = msgspec.json.decode(items)
            if not isinstance(items, list | tuple) or len(items) > MAX_ITEMS:
                raise ComponentError(f"loop {loop.name}: its items must be a list of at most {MAX_ITEMS} items")
            self._items[loop.name, path] = list(items)
        return self._items[loop.name, path]

    def _made_at(self, step: Step, path: tuple[int, ...]) -> Step:
        placed = partial(self._placed, loops=step.loops, path=path)
        inputs = {
            name: msgspec.structs.replace(source, uri=placed(source.uri), properties=placed(source.properties))
            if isinstance(source, FromOutside)
            else placed(source)
            for name, source in step.inputs.items()
        }
        return msgspec.structs.replace(
            step,
            name=_name(step.name, path),
            inputs=inputs,
            exec_properties={name: placed(value) for name, value in step.exec_properties.items()},
            when=tuple([placed(condition) for condition in step.when]),
            settings={name: placed(value) for name, value in step.settings.items()},
            report=placed(step.report),
            behind=self._made_behind(step.behind, step.loops, path),
            needs=self._made_behind(step.needs, step.loops, path),
            pattern=step.name,
            at=path,
        )

    def _placed(self, value: Any, loops: tuple[Loop, ...], path: tuple[int, ...]) -> Any:
        """Return a value in which the items and step names of one iteration replace the references to loops and steps.

        `path` has the index of the iteration in each loop of `loops`.
        """

        def change(operation: Value) -> Any:
            if operation.op == ITEM:
                depth = [loop.name for loop in loops].index(operation.args[0])
                return self._of(loops[:depth], loops[depth], path[:depth])[path[depth]]
            if operation.op == COLLECT:
                depth, loop, inner = operation.args
                outer, place = loops[:depth], path[:depth]
                number = len(self._of(outer, loop, place))
                return Value("all", tuple([self._placed(inner, (*outer, loop), (*place, at)) for at in range(number)]))
            if operation.op == STATUS:
                return Value(
                    STATUS, tuple([made for step in operation.args for made in self._known_names(step, loops, path)])
                )
            (name,) = self._names(operation.args[0], loops, path)
            return Value(OUTPUT, (name, *operation.args[1:]))

        return mapped(value, change)

    def _made_behind(
        self, predecessors: tuple[str, ...], loops: tuple[Loop, ...], path: tuple[int, ...]
    ) -> tuple[str, ...]:
        """Return the steps that were made from the predecessors of a pattern, for the iteration `path` of the pattern.

        A predecessor in a loop without items has no steps. Then the predecessors of this predecessor take its place.
        """
        made, waiting, known = dict[str, None](), list(reversed(predecessors)), set(predecessors)
        while waiting:
            predecessor = waiting.pop()
            names = self._known_names(predecessor, loops, path)
            made |= dict.fromkeys(names)
            earlier = [] if names else [name for name in self._behind[predecessor] if name not in known]
            known.update(earlier)
            waiting += reversed(earlier)
        return tuple(made)

    def _known_names(self, pattern: str, loops: tuple[Loop, ...], path: tuple[int, ...]) -> list[str]:
        """Return the result of `_names`. If the iterations of the pattern are not known, return the pattern's name."""
        try:
            return self._names(pattern, loops, path)
        except NotYet:
            return [pattern]

    def _names(self, pattern: str, loops: tuple[Loop, ...], path: tuple[int, ...]) -> list[str]:
        """Return the names of the steps that were made from a pattern.

        `path` is an iteration of `loops`. If the pattern is in some of these loops, only its steps in the same
        iteration count. Raises NotYet if the pattern's iterations are not known.
        """
        own, around, made = self._loops[pattern], [loop.name for loop in loops], self._made[pattern]
        shared = max(depth for depth in range(len(own) + 1) if own[:depth] == around[:depth])
        if own and not all(step.at for step in made):
            raise NotYet(pattern)
        return [step.name for step in made if step.at[:shared] == path[:shared]]


def _name(pattern: str, path: tuple[int, ...]) -> str:
    return ".".join([pattern, *map(str, path)])


def _described(step: Step) -> Any:
    """Return everything that determines a step's work, for `Graph.fingerprint`.

    A step that has only inputs, outputs and parameters has the same description as in the first release, which had no
    other features. So the fingerprints of old runs stay valid.
    """
    spec = step.executor_spec
    what = spec.path if isinstance(spec, ExecutorClassSpec) else msgspec.to_builtins(spec)
    inputs = {name: msgspec.to_builtins(source) for name, source in step.inputs.items()}
    for name, source in step.inputs.items():
        if isinstance(source, Value) and source.op == OUTPUT:
            inputs[name] = {"type": "FromStep", "step": source.args[0], "output": source.args[1]}
    more = [step.when, step.loops, sorted(step.behind), step.always, *([sorted(step.needs)] if step.needs else [])]
    late = [dict(step.settings), dict(step.properties), step.report]
    has_late = bool(step.settings) or step.report is not None or bool(step.properties)
    described = [step.name, what, inputs, dict(step.outputs), dict(step.exec_properties)]
    return [*described, *([[*more, *late]] if has_late or any(more) else [])]
