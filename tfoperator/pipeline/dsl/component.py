"""Components of a pipeline, their interfaces, and the channels between them.

A spec defines the inputs, outputs and parameters of a kind of component, with their types. A channel carries artifacts
from a component to other components, or from outside into a pipeline.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec

from tfoperator.launcher import Artifact, ComponentError, ExecutorSpec, RetryPolicy
from tfoperator.pipeline.dsl.standard_artifacts import VALUES, ArtifactTypeName, type_name
from tfoperator.pipeline.values import ITEM, OUTPUT, Value


class Channel:
    """Artifacts of one type, which components read.

    If a channel has a `uri` or `artifacts`, these artifacts exist before the pipeline runs. Otherwise the component
    `producer` makes the artifacts.
    """

    def __init__(
        self,
        type: ArtifactTypeName,  # noqa: A002 - the design's name
        uri: str = "",
        *,
        artifacts: Sequence[Artifact] = (),
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        """Raises TypeError for an invalid type."""
        self.type_name = type_name(type)
        self.artifacts = (*((Artifact(uri, dict(properties or {})),) if uri else ()), *artifacts)
        self.producer: BaseComponent | None = None
        self.output = ""
        """The name of the output in the producer."""
        self.choices: tuple[Channel, ...] = ()

    @property
    def value(self) -> Value:
        """A placeholder for the content that the artifact will have. Use it as a parameter or in a condition (`when`).

        Raises ComponentError unless the artifact is the output of a component, and its type is a type of values
        (`Integer`, `String` ...).
        """
        if self.producer is None or self.type_name not in VALUES:
            raise ComponentError(f"{self!r} has no value: only an output of type {', '.join(VALUES)} has a value")
        return Value(OUTPUT, (self.producer, self.output))

    @classmethod
    def first_of(cls, *channels: Channel) -> Channel:
        """Return a channel with the artifacts of the first of `channels` whose producer is not skipped.

        For example, a component can read the output of one of two components that have opposite conditions.
        """
        channel = cls(channels[0].type_name)
        channel.choices = channels
        return channel

    def __repr__(self) -> str:
        source = f"{self.producer.id}.{self.output}" if self.producer else ", ".join(a.uri for a in self.artifacts)
        return f"Channel({self.type_name}: {source or 'empty'})"


class Outputs(dict[str, Channel]):
    """The outputs of a component: `component.outputs["model"]`, or `component.outputs.model`."""

    def __getattr__(self, name: str) -> Channel:
        if name not in self:
            raise AttributeError(f"there is no output {name!r}; the outputs are: {', '.join(self) or 'none'}")
        return self[name]


class ForEach:
    """A loop over `items`: `loop = ForEach([1, 2]); train = Trainer(rate=loop.item)` runs the component twice.

    A component is in the loop if a parameter contains `loop.item`, or if `component.each(loop)` was called. `items` is
    a list, the `value` of another component's output, or the item of another loop. At most `limit` iterations run in
    parallel; 0 means no limit. A component outside of the loop gets the outputs of all iterations as a list.
    """

    def __init__(self, items: Sequence[Any] | Value, limit: int = 0) -> None:
        self.items = items
        self.limit = limit

    @property
    def item(self) -> Value:
        """The item of the current iteration. `item["name"]` is a member of the item."""
        return Value(ITEM, (self,))


class ChannelParameter(msgspec.Struct, frozen=True):
    """The type of an input or an output. Callers may omit an optional input."""

    type: ArtifactTypeName
    optional: bool = False


class ExecutionParameter(msgspec.Struct, frozen=True):
    """The type of a parameter, such as `int`. JSON must be able to represent the parameter's value.

    Callers may omit an optional parameter, or pass None.
    """

    type: builtins.type[Any]
    optional: bool = False


class ComponentSpec:
    """The base of the classes that `make_spec_class` makes. An instance holds the checked arguments of a component.

    Arguments for outputs are checked and then ignored: a component makes the channels of its outputs itself.
    """

    INPUTS: ClassVar[Mapping[str, ChannelParameter]] = {}
    OUTPUTS: ClassVar[Mapping[str, ChannelParameter]] = {}
    PARAMETERS: ClassVar[Mapping[str, ExecutionParameter]] = {}

    def __init__(self, **arguments: Any) -> None:
        """Check the arguments. Raises ComponentError if some are missing, unknown or of the wrong type.

        The message has a line for each wrong argument.
        """
        problems: list[str] = []
        known_parameters: dict[str, ChannelParameter | ExecutionParameter] = {
            **self.INPUTS,
            **self.OUTPUTS,
            **self.PARAMETERS,
        }
        given = {name: argument for name, argument in arguments.items() if argument is not None}
        for name in sorted(arguments.keys() - known_parameters.keys()):
            problems.append(f"there is no argument {name!r}; the arguments are {', '.join(known_parameters) or 'none'}")
        for name, wanted in known_parameters.items():
            if name in given:
                problems += _problems(name, wanted, given[name])
            elif not wanted.optional and name not in self.OUTPUTS:
                problems.append(f"the {'input' if name in self.INPUTS else 'parameter'} {name!r} is missing")
        if problems:
            raise ComponentError("\n".join([f"{type(self).__name__}: its arguments are not valid:", *problems]))
        self.inputs: dict[str, Channel] = {name: given[name] for name in self.INPUTS if name in given}
        self.exec_properties: dict[str, Any] = {name: given[name] for name in self.PARAMETERS if name in given}


def make_spec_class(
    inputs: Mapping[str, ChannelParameter] | None = None,
    outputs: Mapping[str, ChannelParameter] | None = None,
    parameters: Mapping[str, ExecutionParameter] | None = None,
    *,
    name: str = "ComponentSpec",
) -> type[ComponentSpec]:
    """Return a subclass of ComponentSpec with these inputs, outputs and parameters.

    Raises ComponentError if two inputs, outputs or parameters have the same name, or if a name can't be the name of a
    Python argument. Raises TypeError for an invalid type.
    """
    names = [*(inputs or {}), *(outputs or {}), *(parameters or {})]
    if twice := sorted({key for key in names if names.count(key) > 1}):
        raise ComponentError(f"{', '.join(twice)}: the names of inputs, outputs and parameters must differ")
    if odd := sorted(key for key in names if not key.isidentifier()):
        raise ComponentError(
            f"{', '.join(odd)}: the name of an input, output or parameter must be a valid name of a Python argument"
        )
    for channel in (*(inputs or {}).values(), *(outputs or {}).values()):
        type_name(channel.type)
    members = {"INPUTS": dict(inputs or {}), "OUTPUTS": dict(outputs or {}), "PARAMETERS": dict(parameters or {})}
    return type(name, (ComponentSpec,), members)


def _problems(name: str, wanted: ChannelParameter | ExecutionParameter, given: Any) -> Iterator[str]:
    if isinstance(wanted, ChannelParameter):
        kind = type_name(wanted.type)
        if not isinstance(given, Channel):
            yield f"{name} must be a Channel, but is {given!r}"
        elif given.producer is not None and given.type_name != kind:
            yield f"{name} takes {kind}, but {given.producer.id}.{given.output} is {given.type_name}"
    elif not isinstance(given, Value):
        kinds: tuple[type[Any], ...] = (float, int) if wanted.type is float else (wanted.type,)
        if not isinstance(given, kinds) or (isinstance(given, bool) and bool not in kinds):
            yield f"the parameter {name!r} must be {wanted.type.__name__}, but is {given!r}"
            return
        try:
            msgspec.json.encode(given)
        except (TypeError, ValueError) as error:
            yield f"the parameter {name!r} must be a value of JSON: {error}"


class BaseComponent:
    """A step of a pipeline. A subclass sets its interface (`SPEC_CLASS`) and its executor (`EXECUTOR_SPEC`).

    `id` is the component's name in the pipeline, and the key of its platform config. The default of `id` is the name of
    the class, followed by `.instance_name` if the component has an instance name. `with_id` changes `id`. `inputs` and
    `outputs` are the component's channels by name. `exec_properties` are its parameters.
    """

    SPEC_CLASS: ClassVar[type[ComponentSpec]] = ComponentSpec
    EXECUTOR_SPEC: ClassVar[ExecutorSpec | None] = None

    def __init__(
        self,
        spec: ComponentSpec | None = None,
        *,
        instance_name: str = "",
        custom_executor_spec: ExecutorSpec | None = None,
        **arguments: Any,
    ) -> None:
        """Make the component from either `spec` or `arguments`, the arguments of `SPEC_CLASS`.

        `custom_executor_spec` replaces the executor of the class. Raises ComponentError if arguments are wrong, or if
        there is no executor.
        """
        kind = type(self).__name__
        if spec is not None and arguments:
            raise ComponentError(f"{kind}: give either a spec or its arguments")
        executor = custom_executor_spec or self.EXECUTOR_SPEC
        if executor is None:
            raise ComponentError(f"{kind} must have an EXECUTOR_SPEC: a container or a class that does its work")
        self.id = f"{kind}.{instance_name}" if instance_name else kind
        self.executor_spec = executor
        self.conditions: tuple[Value, ...] = ()
        self.loops: tuple[ForEach, ...] = ()
        self.retry_policy: RetryPolicy | None = None
        try:
            self.spec = spec if spec is not None else self.SPEC_CLASS(**arguments)
        except ComponentError as error:
            raise ComponentError(f"{self.id}: {error}") from error
        self.inputs, self.exec_properties = self.spec.inputs, self.spec.exec_properties
        self.outputs = Outputs({name: Channel(parameter.type) for name, parameter in self.spec.OUTPUTS.items()})
        for name, channel in self.outputs.items():
            channel.producer, channel.output = self, name

    def when(self, *conditions: Value) -> Self:
        """Run the component only if all these conditions hold; return the component itself.

        A condition is an expression such as `evaluator.outputs.accuracy.value > 0.9`. If a condition doesn't hold, the
        component and the components that read its outputs are skipped.
        """
        self.conditions += conditions
        return self

    def each(self, *loops: ForEach) -> Self:
        """Run the component once for each item of these loops; return the component itself.

        With several loops, the component runs once for each combination of their items. In addition, the component is
        in each loop whose `item` is a part of a parameter.
        """
        self.loops += loops
        return self

    def retry(self, policy: RetryPolicy) -> Self:
        """Set the policy for retries after the component has failed; return the component itself."""
        self.retry_policy = policy
        return self

    def with_id(self, name: str) -> Self:
        """Set the component's id; return the component itself."""
        self.id = name
        return self

    @property
    def name(self) -> str:
        """The component's `id`."""
        return self.id
