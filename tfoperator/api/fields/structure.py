"""Compares plain JSON values with msgspec types: wrong types, unknown members, explicit nulls.

msgspec stops at the first wrong type and doesn't name the map key of the error (`$.spec.tfReplicaSpecs[...].replicas`).
A user needs every error, with its full path. This comparison is slow, so it runs only after msgspec has failed to
decode an object, or for a handwritten manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from tfoperator.api.fields.problems import Problem, in_words, member


class UnknownMember(msgspec.Struct, frozen=True):
    """A member of an object whose struct doesn't have this member. `members` has the names of the struct's members."""

    path: str  # the path of the object
    name: str
    struct: type
    members: tuple[str, ...]


@cache
def _type_info(struct: type) -> inspect.Type:
    # Cached, because `inspect.type_info` takes milliseconds, and a status with an explicit null (from a Go program)
    # needs it at each watch event.
    return inspect.type_info(struct)


@cache
def members(struct: type) -> Mapping[str, inspect.Field]:
    """Return the members of a Struct by their name in JSON; members named `-` are not part of the API, and left out."""
    info = _type_info(struct)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field for field in info.fields if field.encode_name != "-"}


def type_problems(value: object, struct: type, path: str = "") -> list[Problem]:
    """Return a problem for each part of `value` that doesn't have the type that `struct` requires.

    An explicit null counts as absent, because Go programs write an absent member as null. Where the type itself allows
    null, a null is a value. `path` is the path of `value`, with which the paths of the problems begin.
    """
    return list(_type_problems(value, _type_info(struct), path))


def unknown_members(value: object, struct: type, path: str = "") -> list[UnknownMember]:
    """Return every unknown member of `value`, at any depth that the types describe."""
    return list(_unknown_members(value, _type_info(struct), path))


def drop_nulls(value: Any, struct: type) -> Any:
    """Return a copy of `value` without the nulls where `struct` allows no null: such a null means an absent member."""
    return _filtered(value, _type_info(struct), _not_null_unless_nullable)


def drop_wrong(value: Any, struct: type) -> Any:
    """Return a copy of the object `value` without the parts that `drop_nulls` removes or `type_problems` reports.

    Decoding the copy may still fail if a required member is missing.
    """
    return _filtered(drop_nulls(value, struct), _type_info(struct), _fits)


def _type_problems(value: object, info: inspect.Type, path: str) -> Iterator[Problem]:
    if not _fits(value, info):
        yield Problem(path, f"must be {_expectation(value, _unwrap(info)[0])[0]}, but is {in_words(value)}")
        return
    info, _ = _unwrap(info)
    for child, child_info, child_path, required in _children(value, info, path):
        # A null means an absent member if the member has a default; a required member that is missing or null is
        # reported below.
        if child is not None or required:
            yield from _type_problems(child, child_info, child_path)
    if isinstance(info, inspect.StructType) and isinstance(value, dict):
        for name, field in members(info.cls).items():
            if field.required and name not in value:
                yield Problem(member(path, name), "is required")


def _unknown_members(value: object, info: inspect.Type, path: str) -> Iterator[UnknownMember]:
    info, _ = _unwrap(info)
    if isinstance(info, inspect.StructType) and isinstance(value, dict):
        fields = members(info.cls)
        for name in value:
            if name not in fields:
                yield UnknownMember(path, str(name), info.cls, tuple(fields))
    for child, child_info, child_path, _ in _children(value, info, path):
        yield from _unknown_members(child, child_info, child_path)


def _filtered(value: Any, info: inspect.Type, keep: Callable[[object, inspect.Type], bool]) -> Any:
    """Return a copy of `value` without the parts for which `keep` is false; members with unknown names are kept."""
    info, _ = _unwrap(info)
    match value, info:
        case dict(), inspect.StructType():
            fields = members(info.cls)
            return {
                name: _filtered(child, fields[name].type, keep) if name in fields else child
                for name, child in value.items()
                if name not in fields or keep(child, fields[name].type)
            }
        case dict(), inspect.DictType():
            of = info.value_type
            return {key: _filtered(child, of, keep) for key, child in value.items() if keep(child, of)}
        case list(), inspect.VarTupleType() | inspect.ListType():
            return [_filtered(child, info.item_type, keep) for child in value if keep(child, info.item_type)]
    return value


def _not_null_unless_nullable(value: object, info: inspect.Type) -> bool:
    return value is not None or _unwrap(info)[1]


def _fits(value: object, info: inspect.Type) -> bool:
    info, nullable = _unwrap(info)
    if isinstance(info, inspect.RawType | inspect.AnyType) or (value is None and nullable):
        return True
    return _expectation(value, info)[1]


def _children(value: object, info: inspect.Type, path: str) -> Iterator[tuple[object, inspect.Type, str, bool]]:
    """Yield each direct part for which `info` declares a type: the part, this type, its path, if it is required."""
    match value, info:
        case dict(), inspect.StructType():
            fields = members(info.cls)
            for name, child in value.items():
                if name in fields:
                    yield child, fields[name].type, member(path, name), fields[name].required
        case dict(), inspect.DictType():
            for key, child in value.items():
                yield child, info.value_type, f"{path}[{key}]", False
        case list(), inspect.VarTupleType() | inspect.ListType():
            for position, child in enumerate(value):
                yield child, info.item_type, f"{path}[{position}]", False


def _unwrap(info: inspect.Type) -> tuple[inspect.Type, bool]:
    """Return the type without `| None`, and whether the type had `| None`. Other unions stay as they are."""
    if isinstance(info, inspect.UnionType):
        others = [t for t in info.types if not isinstance(t, inspect.NoneType)]
        nullable = len(others) < len(info.types)
        return (others[0] if len(others) == 1 else inspect.UnionType(tuple(others))), nullable
    return info, False


_EXPECTATIONS: dict[type[inspect.Type], tuple[str, tuple[type, ...]]] = {
    inspect.StructType: ("an object", (dict,)),
    inspect.DictType: ("an object", (dict,)),
    inspect.VarTupleType: ("a list", (list,)),
    inspect.ListType: ("a list", (list,)),
    inspect.StrType: ("a string", (str,)),
    inspect.DateTimeType: ("a time such as 2026-01-31T12:00:00Z", (str,)),
    inspect.IntType: ("a whole number", (int,)),
    inspect.FloatType: ("a number", (int, float)),
    inspect.BoolType: ("true or false", (bool,)),
}


def _expectation(value: object, info: inspect.Type) -> tuple[str, bool]:
    """Return the type's requirement in words, and whether the value meets it."""
    if isinstance(info, inspect.UnionType):
        options = [_expectation(value, option) for option in info.types]
        return " or ".join(words for words, _ in options), any(fits for _, fits in options)
    words, types = _EXPECTATIONS.get(type(info), ("another type", ()))
    fits = isinstance(value, types) and (not isinstance(value, bool) or isinstance(info, inspect.BoolType))
    if fits and isinstance(info, inspect.DateTimeType):
        fits = _is_time(value)
    return words, fits


def _is_time(value: object) -> bool:
    try:
        msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return False
    return True
