"""One violation of a rule, as a value, and functions with which all rules read optional members."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

Json = Mapping[str, Any]


class Kind(StrEnum):
    """The kinds of violations, with the machine-readable reasons that API servers give for them."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    DUPLICATE = "FieldValueDuplicate"
    NOT_FOUND = "FieldValueNotFound"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"


class Fault(msgspec.Struct, frozen=True):
    """One violation: the field's path, the kind of the violation, the value, and what it must be ("must be ...").

    `options` are the values that a field may have, for NOT_SUPPORTED.
    """

    field: str
    kind: Kind
    value: Any = None
    detail: str = ""
    options: tuple[str, ...] = ()


Faults = Iterator[Fault]


def required(field: str, detail: str = "") -> Fault:
    """Return the fault of a field that is absent or empty."""
    return Fault(field, Kind.REQUIRED, detail=detail)


def invalid(field: str, value: object, detail: str) -> Fault:
    """Return the fault of a value that breaks a rule."""
    return Fault(field, Kind.INVALID, value, detail)


def forbidden(field: str, detail: str) -> Fault:
    """Return the fault of a field that must not be set here."""
    return Fault(field, Kind.FORBIDDEN, detail=detail)


def duplicate(field: str, value: object) -> Fault:
    """Return the fault of a value that another item has, too."""
    return Fault(field, Kind.DUPLICATE, value)


def not_found(field: str, value: object, detail: str = "") -> Fault:
    """Return the fault of a name for which there is no object."""
    return Fault(field, Kind.NOT_FOUND, value, detail)


def choice(field: str, value: object, options: Sequence[str]) -> Faults:
    """Yield a fault unless the value is one of the options."""
    if value not in options:
        yield Fault(field, Kind.NOT_SUPPORTED, value, options=tuple(options))


def by_rule(field: str, value: str, rule: Callable[[str], str]) -> Faults:
    """Yield a fault if the rule finds a problem: `rule` returns the problem of a text, or an empty string."""
    if problem := rule(value):
        yield invalid(field, value, problem)


def name(field: str, value: str, rule: Callable[[str], str]) -> Faults:
    """Yield the fault of a name that is required and must follow a rule."""
    if not value:
        yield required(field)
    else:
        yield from by_rule(field, value, rule)


def within(field: str, value: int | None, low: int, high: int, detail: str = "") -> Faults:
    """Yield a fault unless the number is absent or in the range, which includes both ends."""
    if value is not None and not low <= value <= high:
        yield invalid(field, value, detail or f"must be between {low} and {high}, inclusive")


def not_negative(field: str, value: int | None) -> Faults:
    """Yield a fault if the number is below zero."""
    if value is not None and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")


def items(parent: Json | None, field: str) -> Sequence[Any]:
    """Return the list `field` of `parent`, with empty objects for null items; an absent or null list is empty."""
    values = (parent or {}).get(field)
    return [{} if item is None else item for item in values] if values else ()


def texts(parent: Json | None, field: str) -> Sequence[str]:
    """Return the list of texts `field` of `parent`, with "" for null items; an absent or null list is empty."""
    return [item or "" for item in (parent or {}).get(field) or ()]


def part(parent: Json | None, field: str) -> Json:
    """Return the object `field` of `parent`; return an empty object if the field is absent or null."""
    return (parent or {}).get(field) or {}


def text(parent: Json | None, field: str, default: str = "") -> str:
    """Return the text `field` of `parent`; return the default if the field is absent, null or empty."""
    return (parent or {}).get(field) or default


def only_one(parent: Json, names: Collection[str]) -> list[str]:
    """Return the names of the members that are set; callers report a fault if not exactly one member is set."""
    return [name for name in names if parent.get(name) is not None]
