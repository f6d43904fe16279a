"""Checks each field of a struct by its declaration (`api.fields.field`). Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from tfoperator.api.fields.field import Field, declared
from tfoperator.api.fields.limits import INT32_MAX, INT32_MIN, Pattern
from tfoperator.api.fields.problems import Problem, member, shown
from tfoperator.api.fields.structure import members
from tfoperator.api.validation.checks import out_of_range, unknown_choice

_NO_RULES: Mapping[str, Iterable[Problem]] = {}


def field_problems(
    path: str, struct: msgspec.Struct, rules: Mapping[str, Iterable[Problem]] = _NO_RULES
) -> list[Problem]:
    """Return the problems of all fields of the struct at `path`, in the order of their declaration.

    `rules` maps the name of a field to the problems that concern several fields; these problems are reported after the
    problems of that field. If a field is a struct and has no rules, its own fields are checked in the same way.
    """
    problems: list[Problem] = []
    for name, attribute, good, field, has_rules in _steps(type(struct), tuple(rules)):
        if attribute and (value := getattr(struct, attribute)) is not None and value not in good:
            problems += _problems_of_value(member(path, name), value, field)
        if has_rules:
            problems += rules[name]
    return problems


_Step = tuple[str, str, Container[Any], Field, bool]
"""A field that may have problems: its name, its attribute, the values that are valid without further checks, its
declaration, and whether there are rules for it. The attribute is "" if only rules can find problems of the field. (A
plain tuple is used because Python unpacks it twice as fast as a named tuple, and this happens for each change of each
job.)
"""


@cache
def _steps(struct: type[msgspec.Struct], ruled: tuple[str, ...]) -> tuple[_Step, ...]:
    """Return the fields of a struct that may have problems; `ruled` are the names of the fields that have rules."""
    steps: list[_Step] = []
    for name, (attribute, field, demanding) in declared(struct).items():
        to_look_at = demanding or (name not in ruled and _has_fields(struct, name))
        if to_look_at or name in ruled:
            steps.append((name, attribute if to_look_at else "", _good(field), field, name in ruled))
    return tuple(steps)


def _has_fields(struct: type[msgspec.Struct], name: str) -> bool:
    """Return whether the value of a field is a struct."""
    kind = members(struct)[name].type
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return any(isinstance(kind, inspect.StructType) for kind in kinds)


def _good(field: Field) -> Container[Any]:
    """Return the values of a field that need no further check; empty if each value needs a check.

    For a field with choices, these values are the choices and "". For a field that has bounds and no pattern, they are
    the numbers within the bounds.
    """
    if field.choices is not None:
        return frozenset(("", *field.choices))
    if field.pattern is None and (field.ge is not None or field.le is not None):
        low, high = _bounds(field)
        return range(low, high + 1)
    return ()


def _problems_of_value(path: str, value: object, field: Field) -> list[Problem]:
    if isinstance(value, msgspec.Struct):
        return field_problems(path, value)
    message = _wrong_text(value, field) if isinstance(value, str) else _wrong(value, field)
    if message:
        return [Problem(path, message)]
    return _wrong_items(path, value, field.pattern) if field.pattern is not None and isinstance(value, dict) else []


def _wrong_text(value: str, field: Field) -> str:
    """Return the message about a wrong text; "" if the text is valid."""
    if field.choices is not None:
        return unknown_choice(value, field.choices)
    if field.required and not value:
        return f"is required: {field.hint}" if field.hint else "is required"
    if field.one_of and value not in field.one_of:
        return f"must be {' or '.join(field.one_of)}, but is {shown(value)}"
    if field.pattern is not None and not field.pattern.fits(value):
        return field.pattern.message.format(shown(value))
    if field.max_length is not None and len(value) > field.max_length:
        return f"must have at most {field.max_length} characters"
    return ""


def _wrong(value: object, field: Field) -> str:
    """Return the message about a wrong number or list; "" if the value is valid."""
    if isinstance(value, tuple) and field.max_items is not None and len(value) > field.max_items:
        return f"must have at most {field.max_items} items"
    if not isinstance(value, int) or (field.ge is None and field.le is None):
        return ""
    low, high = _bounds(field)
    if field.pattern is None:
        return out_of_range(value, low, high)
    return "" if value >= low else field.pattern.message.format(shown(value))


def _bounds(field: Field) -> tuple[int, int]:
    return INT32_MIN if field.ge is None else field.ge, INT32_MAX if field.le is None else field.le


def _wrong_items(path: str, value: Mapping[str, object], pattern: Pattern) -> list[Problem]:
    """Return the problems of the values of a map."""
    return [
        Problem(f"{path}[{key}]", pattern.message.format(shown(item)))
        for key, item in value.items()
        if not pattern.fits(str(item))
    ]
