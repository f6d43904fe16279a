"""Components of a pipeline, their interfaces, and the channels between them.

A spec defines inputs, outputs and parameters of a kind of components, with their types; a channel carries
artifacts from one component to others, or from outside into a pipeline.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec

from tfoperator.launcher import Artifact, ComponentError, ExecutorSpec, RetryPolicy
from tfoperator.pipeline.dsl.standard_artifacts import VALUES, ArtifactTypeName, type_name
from tfoperator.pipeline.values import ITEM, OUTPUT, Value


class Channel:
    """Artifacts of one type. With a `uri`, or `artifacts`, they exist; else `producer` makes one."""

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
        """The name of the producer's output."""
        self.choices: tuple[Channel, ...] = ()

    @property
    def value(self) -> Value:
        """What the artifact holds, once it is there: a parameter of other components, or a part of a condition.

        Raises ComponentError unless it is the output of a component, and of a type of values (`Integer`, `String` ...).
        """
        if self.producer is None or self.type_name not in VALUES:
            raise ComponentError(f"{self!r} holds no value: that is an output of type {', '.join(VALUES)}")
        return Value(OUTPUT, (self.producer, self.output))

    @classmethod
    def first_of(cls, *channels: Channel) -> Channel:
        """Return the channel of the first of several steps that was not left out."""
        channel = cls(channels[0].type_name)
        channel.choices = channels
        return channel

    def __repr__(self) -> str:
        source = f"{self.producer.id}.{self.output}" if self.producer else ", ".join(a.uri for a in self.artifacts)
        return f"Channel({self.type_name}: {source or 'empty'})"


class Outputs(dict[str, Channel]):
    """A component's outputs: `component.outputs["model"]`, or `component.outputs.model`."""

    def __getattr__(self, name: str) -> Channel:
        if name not in self:
            raise AttributeError(f"there is no output {name!r}; there are: {', '.join(self) or 'none'}")
        return self[name]


class ForEach:
    """A loop: components with its `item` in a parameter, and those that say `each`, run for each of the items.

    `items` are a list, or a value: the output of a component, or another loop's item. At most `limit` iterations are
    under way at once; 0: any number. A component outside gets the outputs of all iterations, as a list.
    """

    def __init__(self, items: Sequence[Any] | Value, limit: int = 0) -> None:
        self.items = items
        self.limit = limit

    @property
    def item(self) -> Value:
        """The item of the present iteration; `item["name"]` is a member of it."""
        return Value(ITEM, (self,))


class ChannelParameter(msgspec.Struct, frozen=True):
    """An input or an output. An optional input may be left out."""

    type: ArtifactTypeName
    optional: bool = False


class ExecutionParameter(msgspec.Struct, frozen=True):
    """A parameter: a value of a type that JSON can represent. An optional one may be left out, or None."""

    type: builtins.type[Any]
    optional: bool = False


class ComponentSpec:
    """Base of the classes of `make_spec_class`: an instance holds the arguments of one component, checked.

    The component itself makes outputs that are not given.
    """

    INPUTS: ClassVar[Mapping[str, ChannelParameter]] = {}
    OUTPUTS: ClassVar[Mapping[str, ChannelParameter]] = {}
    PARAMETERS: ClassVar[Mapping[str, ExecutionParameter]] = {}

    def __init__(self, **arguments: Any) -> None:
        """Raises ComponentError, with a line for each argument that is missing, unknown or of the wrong type."""
        problems: list[str] = []
        known = {**self.INPUTS, **self.OUTPUTS, **self.PARAMETERS}
        for name in sorted(arguments.keys() - known.keys()):
            problems.append(f"it has no argument {name!r}; there are {', '.join(known) or 'none'}")
        self.inputs: dict[str, Channel] = {}
        self.outputs: dict[str, Channel] = {}
        self.exec_properties: dict[str, Any] = {}
        for name, channel in self.INPUTS.items():
            _take_channel(name, channel, arguments.get(name), self.inputs, problems)
        for name, channel in self.OUTPUTS.items():
            if arguments.get(name) is not None:
                _take_channel(name, channel, arguments[name], self.outputs, problems)
        for name, parameter in self.PARAMETERS.items():
            _take_parameter(name, parameter, arguments.get(name), self.exec_properties, problems)
        if problems:
            raise ComponentError("\n".join([f"{type(self).__name__}: its arguments are wrong:", *problems]))


def make_spec_class(
    inputs: Mapping[str, ChannelParameter] | None = None,
    outputs: Mapping[str, ChannelParameter] | None = None,
    parameters: Mapping[str, ExecutionParameter] | None = None,
    *,
    name: str = "ComponentSpec",
) -> type[ComponentSpec]:
    """Return a class of specs. Raises ComponentError if one name is used twice, TypeError for an invalid type."""
    names = [*(inputs or {}), *(outputs or {}), *(parameters or {})]
    if twice := sorted({key for key in names if names.count(key) > 1}):
        raise ComponentError(f"{', '.join(twice)}: an input, output or parameter needs a name of its own")
    if odd := sorted(key for key in names if not key.isidentifier()):
        raise ComponentError(f"{', '.join(odd)}: an input, output or parameter needs the name of a Python argument")
    for channel in (*(inputs or {}).values(), *(outputs or {}).values()):
        type_name(channel.type)
    members = {"INPUTS": dict(inputs or {}), "OUTPUTS": dict(outputs or {}), "PARAMETERS": dict(parameters or {})}
    return type(name, (ComponentSpec,), members)


def _take_channel(
    name: str, parameter: ChannelParameter, given: Any, into: dict[str, Channel], problems: list[str]
) -> None:
    if given is None:
        if not parameter.optional:
            problems.append(f"the input {name!r} is missing")
    elif not isinstance(given, Channel):
        problems.append(f"{name} is a Channel, but {given!r} is none")
    elif given.producer is not None and given.type_name != type_name(parameter.type):
        problems.append(
            f"{name} takes {type_name(parameter.type)}, but {given.producer.id}.{given.output} is {given.type_name}"
        )
    else:
        into[name] = given


def _take_parameter(
    name: str, parameter: ExecutionParameter, given: Any, into: dict[str, Any], problems: list[str]
) -> None:
    if given is None:
        if not parameter.optional:
            problems.append(f"the parameter {name!r} is missing")
        return
    if isinstance(given, Value):
        into[name] = given
        return
    wanted: tuple[type[Any], ...] = (float, int) if parameter.type is float else (parameter.type,)
    if not isinstance(given, wanted) or (isinstance(given, bool) and bool not in wanted):
        problems.append(f"the parameter {name!r} is {parameter.type.__name__}, but is given {given!r}")
        return
    try:
        msgspec.json.encode(given)
    except (TypeError, ValueError) as error:
        problems.append(f"the parameter {name!r} can't be JSON: {error}")
        return
    into[name] = given


class BaseComponent:
    """A step of a pipeline. A subclass sets its interface (`SPEC_CLASS`) and its executor (`EXECUTOR_SPEC`).

    `id` is its name in the pipeline, which is also the key of its platform config: the class's name, with
    `.instance_name` appended if there is one. `with_id` changes it.
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
        """Raises ComponentError for wrong arguments, or if there is no executor."""
        kind = type(self).__name__
        if spec is not None and arguments:
            raise ComponentError(f"{kind}: give a spec, or its arguments")
        executor = custom_executor_spec or self.EXECUTOR_SPEC
        if executor is None:
            raise ComponentError(f"{kind} has no EXECUTOR_SPEC: a container or a class that does its work")
        self.id = f"{kind}.{instance_name}" if instance_name else kind
        self.executor_spec = executor
        self.conditions: tuple[Value, ...] = ()
        self.loops: tuple[ForEach, ...] = ()
        self.retry_policy: RetryPolicy | None = None
        try:
            self.spec = spec if spec is not None else self.SPEC_CLASS(**arguments)
        except ComponentError as error:
            raise ComponentError(f"{self.id}: {error}") from error
        self.outputs = Outputs({name: Channel(one.type) for name, one in self.spec.OUTPUTS.items()})
        for name, channel in self.outputs.items():
            channel.producer, channel.output = self, name

    def when(self, *conditions: Value) -> Self:
        """Run it only if these hold; return the component itself. Otherwise what reads from it is left out, too."""
        self.conditions += conditions
        return self

    def each(self, *loops: ForEach) -> Self:
        """Run it in these loops, too; return the component itself."""
        self.loops += loops
        return self

    def retry(self, policy: RetryPolicy) -> Self:
        """Try it again by this policy; return the component itself."""
        self.retry_policy = policy
        return self

    def with_id(self, name: str) -> Self:
        """Set the id; return the component itself."""
        self.id = name
        return self

    @property
    def name(self) -> str:
        """Its `id`."""
        return self.id

    @property
    def inputs(self) -> dict[str, Channel]:
        """The input channels, by name."""
        return self.spec.inputs

    @property
    def exec_properties(self) -> dict[str, Any]:
        """Its parameters."""
        return self.spec.exec_properties
