"""The largest object that a view can be decoded from: an attacker can make a cache hold so much of one object."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import inspect

Json = dict[str, Any]

_SHORT = 60
"""Characters of names that API servers bound: in every kind of object they refuse longer names."""

_COMPUTED = "-"
"""The name of members that are computed while an object is decoded."""

_KEY = "k" * 33
"""A part of each key, because msgspec itself remembers some hundred keys of up to 32 characters."""

_BOUNDED_BY_SERVERS = {
    "name": "n" * _SHORT,
    "generateName": "",
    "namespace": "ns",
    "uid": "u" * 36,
    "resourceVersion": "1",
}
"""The metadata that every API server bounds. Labels, annotations, owners and finalizers have no such bound."""


def largest(view: type[msgspec.Struct], size: int, *, without: tuple[str, ...] = ()) -> Json:
    """Return an object with about `size` bytes in each member that `view` reads, but for the members `without`."""
    fields = inspect.type_info(view)
    assert isinstance(fields, inspect.StructType)
    made = {
        field.encode_name: _filled(field.type, size, field.encode_name)
        for field in fields.fields
        if field.name not in without and field.encode_name != _COMPUTED
    }
    metadata = made["metadata"]
    metadata |= _BOUNDED_BY_SERVERS
    # API servers let at most one owner be the controller: the caller adds it.
    metadata["ownerReferences"] = [reference | {"controller": False} for reference in metadata["ownerReferences"]]
    return made


def _filled(kind: inspect.Type, size: int, name: str) -> Any:
    """Return a value of the type with about `size` bytes."""
    match kind:
        case inspect.StrType():
            return (name + "-" + "x" * size)[: max(size, 4)]
        case inspect.DictType(value_type=of):
            count = max(size // 60, 1)
            return {f"{_KEY}{number:05}": _filled(of, 12, f"{number}") for number in range(count)}
        case inspect.VarTupleType(item_type=of) | inspect.ListType(item_type=of):
            item_size = len(json.dumps(_filled(of, 12, "0")))
            return [_filled(of, 12, f"{number}") for number in range(max(size // item_size, 1))]
        case inspect.StructType(fields=fields):
            each = max(size // max(len(fields), 1), 1)
            named = (field for field in fields if field.encode_name != _COMPUTED)
            return {field.encode_name: _filled(field.type, each, field.encode_name) for field in named}
        case inspect.UnionType(types=types):
            return _filled(next(type_ for type_ in types if not isinstance(type_, inspect.NoneType)), size, name)
        case inspect.AnyType() | inspect.RawType():
            return {f"{_KEY}{number}": "x" * 20 for number in range(max(size // 60, 1))}
        case inspect.DateTimeType():
            return "2026-01-01T00:00:00Z"
        case inspect.BoolType():
            return True
        case inspect.EnumType(cls=values):
            return next(iter(values)).value
        case inspect.FloatType():
            return 1.5
        case inspect.IntType():
            return 1
        case other:
            raise NotImplementedError(f"{name}: {other}: say here what is the largest value of this type")
