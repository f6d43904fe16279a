"""Checks each field of a struct by its declaration (`api.field`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tfoperator.api.field import Field, declared
from tfoperator.api.limits import INT32_MAX, INT32_MIN, Pattern
from tfoperator.api.problems import Problem, member, shown
from tfoperator.api.validation.checks import out_of_range, unknown_choice

_NO_RULES: Mapping[str, Iterable[Problem]] = {}


def problems_of(path: str, struct: msgspec.Struct, rules: Mapping[str, Iterable[Problem]] = _NO_RULES) -> list[Problem]:
    """Return the problems of all fields of the struct at `path`, in the order of their declaration.

    `rules` are the problems that no single field shows, each by the name of the field after which they are reported. A
    field with a struct and without rules is checked in the same way.
    """
    found: list[Problem] = []
    for name, (attribute, field, demanding) in declared(type(struct)).items():
        value = getattr(struct, attribute)
        if value is not None and demanding:
            message = _wrong_text(value, field) if isinstance(value, str) else _wrong(value, field)
            if message:
                found.append(Problem(member(path, name), message))
            elif field.pattern is not None and isinstance(value, dict):
                found += _wrong_items(member(path, name), value, field.pattern)
        if name in rules:
            found += rules[name]
        elif value is not None and not demanding and isinstance(value, msgspec.Struct):
            found += problems_of(member(path, name), value)
    return found


def _wrong_text(value: str, field: Field) -> str:
    """Return the message about a text; "" if there is nothing wrong with it."""
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
    """Return the message about a number or a list; "" if there is nothing wrong with it."""
    if isinstance(value, tuple) and field.max_items is not None and len(value) > field.max_items:
        return f"must have at most {field.max_items} items"
    if not isinstance(value, int) or (field.ge is None and field.le is None):
        return ""
    low, high = INT32_MIN if field.ge is None else field.ge, INT32_MAX if field.le is None else field.le
    if field.pattern is None:
        return out_of_range(value, low, high)
    return "" if value >= low else field.pattern.message.format(shown(value))


def _wrong_items(path: str, value: Mapping[str, object], pattern: Pattern) -> list[Problem]:
    """Return the problems of the values of a map."""
    return [
        Problem(f"{path}[{key}]", pattern.message.format(shown(item)))
        for key, item in value.items()
        if not pattern.fits(str(item))
    ]
