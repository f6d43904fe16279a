"""Groups of command-line options as structs, and options of the form `NAME=VALUE`.

If the type of a command's parameter is a msgspec Struct (for example ClusterOptions), the command has an option for
each field of the struct.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

import msgspec

from tfoperator.cli.terminal.errors import CliError


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """Return a function for Typer that calls the command.

    In place of each parameter whose type is a struct, the function has one parameter for each field of the struct.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[msgspec.Struct]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            groups[name] = kind
            parameters += _options(kind)
        else:
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
    if not groups:
        return command

    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field: given.pop(field) for field in kind.__struct_fields__})
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by `inspect.signature`
    return run


def _options(group: type[msgspec.Struct]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in msgspec.structs.fields(group)
    ]


def pairs(option: str, given: Iterable[str] | None) -> list[tuple[str, str]]:
    """Return the names and values of `NAME=VALUE` arguments. Raises CliError for an argument of another form."""
    name_values: list[tuple[str, str]] = []
    for text in given or ():
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise CliError(f"{option} {text}: must have the form NAME=VALUE")
        name_values.append((name, value))
    return name_values


def single_values(option: str, given: Iterable[str] | None) -> dict[str, str]:
    """Return the values of `NAME=VALUE` arguments; raise CliError if a name occurs twice."""
    name_values = pairs(option, given)
    if len(dict(name_values)) < len(name_values):
        raise CliError(f"{option}: the same parameter is given twice")
    return dict(name_values)
