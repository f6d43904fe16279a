"""The interface of a kind of components: which inputs, outputs and parameters it has, and of which types."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from tfoperator.launcher import ComponentError
from tfoperator.pipeline.dsl.channel import Channel
from tfoperator.pipeline.dsl.standard_artifacts import ArtifactTypeName, type_name


class ChannelParameter(msgspec.Struct, frozen=True):
    """An input or an output. An optional input may be left out."""

    type: ArtifactTypeName
    optional: bool = False


class ExecutionParameter(msgspec.Struct, frozen=True):
    """A parameter: a value of a type whose values can be JSON. An optional one may be left out, or None."""

    type: builtins.type[Any]
    optional: bool = False


class ComponentSpec:
    """Base of what `make_spec_class` makes: an instance holds the arguments of one component, checked.

    Outputs that are not given are made by the component itself.
    """

    INPUTS: ClassVar[Mapping[str, ChannelParameter]] = {}
    OUTPUTS: ClassVar[Mapping[str, ChannelParameter]] = {}
    PARAMETERS: ClassVar[Mapping[str, ExecutionParameter]] = {}

    def __init__(self, **arguments: Any) -> None:
        """Raises ComponentError, with a line for each argument that is missing, unknown or of another type."""
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
    """A class of specs. Raises ComponentError if one name is used twice, TypeError for what is no type."""
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
