"""Every field of a pod template, at every depth, with its type: the table that all checks and the CRD share.

hack/builtin_schemas.py makes `types.json` from the OpenAPI documents of Kubernetes' newest release. The texts in
`descriptions.toml` are written for this project. Both files are read only at the first use. So the operator, which
imports this module but checks no manifest, never reads them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec

from tfoperator.api.fields.problems import Problem, in_words, member, shown
from tfoperator.api.fields.quantity import parse_signed_quantity

TYPES = Path(__file__).with_name("types.json")
"""The file with all types of a pod template, each with its fields; hack/builtin_schemas.py generates it."""

_DESCRIPTIONS = Path(__file__).with_name("descriptions.toml")
_FOR_ALL_TYPES = "every"

TEMPLATE = "PodTemplateSpec"
"""The type of a whole pod template."""

VOLUME_SOURCE = "VolumeSource"
"""The type of a volume without the member `name`, such as the volume of a checkpoint."""

_VOLUME = "Volume"

STRING, BOOLEAN, INT32, INT64 = "string", "boolean", "int32", "int64"
QUANTITY, INT_OR_STRING, TIME, OBJECT = "quantity", "int-or-string", "time", "object"
"""The types without fields. A value of type `object` can have any members."""

LIST, MAP = "[]", "{}"
"""Prefixes of a type's name: for a list of the type, and for a map from strings to the type."""

_INTEGERS = {INT32: 2**31, INT64: 2**63}


class PodType(msgspec.Struct, frozen=True):
    """One type of Kubernetes: its fields with their types, and the names of the required fields."""

    fields: dict[str, str]
    required: tuple[str, ...] = ()


@cache
def pod_types() -> Mapping[str, PodType]:
    """Return the types by their names in Kubernetes, such as `Container`."""
    types_by_name = msgspec.json.decode(TYPES.read_bytes(), type=dict[str, PodType])
    return {**types_by_name, VOLUME_SOURCE: PodType(types_by_name[_VOLUME].fields)}


@cache
def _descriptions() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(_DESCRIPTIONS.read_text(encoding="utf-8"))


def description(type_name: str, field: str) -> str:
    """Return the meaning of a field. Raises KeyError for a field without a description."""
    descriptions = _descriptions()
    return (
        descriptions.get(_VOLUME if type_name == VOLUME_SOURCE else type_name, {}).get(field)
        or descriptions[_FOR_ALL_TYPES][field]
    )


def described() -> Iterator[tuple[str, str]]:
    """Yield each description's type and field; the type is "every" for descriptions that hold for all types."""
    for type_name, fields in _descriptions().items():
        for field in fields:
            yield type_name, field


class Unknown(msgspec.Struct, frozen=True):
    """A member of an object whose type doesn't have this member.

    `path` is the path of the object. `members` has the names of the type's members.
    """

    path: str
    name: str
    members: tuple[str, ...]


def unknown_fields(value: object, kind: str, path: str) -> Iterator[Unknown]:
    """Yield the members of `value`, at every depth, that the type `kind` doesn't have."""
    of = pod_types().get(kind)
    if of is not None and isinstance(value, dict):
        for name in value:
            if name not in of.fields:
                yield Unknown(path, str(name), tuple(of.fields))
    for child, child_kind, at in _parts(value, kind, path):
        yield from unknown_fields(child, child_kind, at)


_ZERO: Mapping[str, object] = {STRING: "", BOOLEAN: False, INT32: 0, INT64: 0, QUANTITY: "0", INT_OR_STRING: 0}


def fill_nulls(value: object, kind: str) -> None:
    """Replace null items of lists and maps by the zero value of their type, in place, as Go programs read them."""
    prefix, name = schema_kind(kind)
    if prefix and isinstance(value, list | dict):
        for key, item in enumerate(value) if isinstance(value, list) else list(value.items()):
            if item is None:
                value[key] = _ZERO.get(name, {})
    for child, child_kind, _ in _parts(value, kind, ""):
        fill_nulls(child, child_kind)


def wrong_types(value: object, kind: str, path: str) -> Iterator[Problem]:
    """Yield a problem for every part of `value`, at every depth, that does not have the type that `kind` demands.

    A null counts as absent, because Go programs write an absent value as null.
    """
    if value is None:
        return
    wanted = _demand(value, kind)
    if wanted:
        yield Problem(path, f"must be {wanted}, but is {shown(value) if kind == QUANTITY else in_words(value)}")
        return
    for child, child_kind, at in _parts(value, kind, path):
        yield from wrong_types(child, child_kind, at)


def _parts(value: object, kind: str, path: str) -> Iterator[tuple[object, str, str]]:
    """Yield the direct parts of a value, each with its type and path.

    Yield nothing if the value does not have the form of its type.
    """
    if kind.startswith(LIST):
        for position, item in enumerate(value if isinstance(value, list) else ()):
            yield item, kind[2:], f"{path}[{position}]"
    elif kind.startswith(MAP):
        for key, item in (value if isinstance(value, dict) else {}).items():
            yield item, kind[2:], f"{path}[{key}]"
    elif (of := pod_types().get(kind)) is not None:
        for name, item in (value if isinstance(value, dict) else {}).items():
            if name in of.fields:
                yield item, of.fields[name], member(path, name)


def _demand(value: object, kind: str) -> str:
    """Return the type's requirement if the outermost value does not meet it, else an empty string."""
    if kind.startswith(LIST):
        return "" if isinstance(value, list) else "a list"
    if kind == STRING:
        return "" if isinstance(value, str) else "a string"
    if kind == TIME:
        return "" if _is_time(value) else "a time such as 2026-01-31T12:00:00Z"
    if kind == BOOLEAN:
        return "" if isinstance(value, bool) else "true or false"
    if kind in _INTEGERS:
        return "" if _is_integer(value) and -_INTEGERS[kind] <= int(str(value)) < _INTEGERS[kind] else "a whole number"
    if kind == INT_OR_STRING:
        return "" if isinstance(value, str) or not _demand(value, INT32) else "a whole number or a string"
    if kind == QUANTITY:
        return "" if _is_quantity(value) else "a quantity such as 4, 500m or 8Gi"
    return "" if isinstance(value, dict) else "an object"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_quantity(value: object) -> bool:
    try:
        parse_signed_quantity(value.strip() if isinstance(value, str) else value)
    except ValueError:
        return False
    return True


def schema_kind(kind: str) -> tuple[str, str]:
    """Return the prefix of a type ("", `[]` or `{}`), and the type without it."""
    return (kind[:2], kind[2:]) if kind.startswith((LIST, MAP)) else ("", kind)
