"""Turns msgspec types into the structural schemas of a CustomResourceDefinition.

Shape, member names and required members come from the types; descriptions, bounds, defaults and CEL rules, which a type
can't express, from a table (`tfoperator.api.schema.fields`). So a field can't be in the types and missing from the CRD,
and a new one without a description is an error here.
"""

from __future__ import annotations

import copy
import inspect as python_inspect
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from tfoperator.api.schema.pod_schemas import brief, kubernetes_schema
from tfoperator.api.structure import members

Schema = dict[str, Any]


_PLAIN: Mapping[type, Schema] = {
    inspect.StrType: {"type": "string"},
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer", "format": "int32"},
    inspect.FloatType: {"type": "number"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
}


class Field(msgspec.Struct, frozen=True):
    """The schema's additions for one member besides its type.

    `schema` overlays the type's schema, at every depth; `view` describes a member that the types leave undecoded.
    `kubernetes` is the name of the member's type in Kubernetes, `PodTemplateSpec` or `[]EnvVar`: with `pods` in the
    table, its whole schema takes the place of both. `members` overlays members of that schema, by their paths.
    A `brief` schema describes its own fields only, not those within them.
    """

    description: str
    schema: Mapping[str, Any] = {}
    view: type | None = None
    kubernetes: str = ""
    members: Mapping[tuple[str, ...], Mapping[str, Any]] = {}
    brief: bool = False


class Table(msgspec.Struct, frozen=True):
    """The additions to all types.

    `fields`: every member of every struct. `structs`: additions to a struct's own schema, such as CEL rules and
    required members. `open_structs`: those whose other members are kept, unchecked. `pods`: whether Kubernetes' own
    types have their fields and types, too, or are open.
    """

    fields: Mapping[type, Mapping[str, Field]]
    structs: Mapping[type, Mapping[str, Any]] = {}
    open_structs: frozenset[type] = frozenset()
    pods: bool = False


def struct_schema(struct: type, table: Table) -> Schema:
    """Return the structural schema of a struct, new at each call. Raises KeyError for a member that the table lacks."""
    fields = table.fields[struct]
    properties: Schema = {}
    for name, field in members(struct).items():
        properties[name] = _field_schema(fields[name], field.type, table)
    for name, extra in fields.items():
        # A member that only other operators write: the API server stores it, and no code here reads it.
        if name not in properties:
            properties[name] = {"description": extra.description, **copy.deepcopy(dict(extra.schema))}
    schema: Schema = {
        "description": _summary(struct),
        "type": "object",
        "properties": dict(sorted(properties.items())),
    }
    required = [name for name, field in members(struct).items() if field.required]
    if required:
        schema["required"] = sorted(required)
    if struct in table.open_structs:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema | copy.deepcopy(dict(table.structs.get(struct, {})))


def _field_schema(field: Field, info: inspect.Type, table: Table) -> Schema:
    if field.kubernetes and table.pods:
        schema = kubernetes_schema(field.kubernetes)
        schema = brief(schema) if field.brief else schema
        for path, addition in field.members.items():
            _overlay(_at(schema, path), addition)
    else:
        schema = struct_schema(field.view, table) if field.view else _type_schema(info, table)
    _overlay(schema, field.schema)
    return {**schema, "description": field.description}


def _at(schema: Schema, path: Sequence[str]) -> Schema:
    """Return the schema at a path of members' names, through the items of lists."""
    for name in path:
        schema = schema.get("items", schema)["properties"][name]
    return schema


def _overlay(schema: Schema, addition: Mapping[str, Any]) -> None:
    """Add to a schema in place, at every depth: a table can bound the items of a list without repeating their type."""
    for key, value in addition.items():
        below = schema.get(key)
        if isinstance(below, dict) and isinstance(value, Mapping):
            _overlay(below, value)
        else:
            schema[key] = copy.deepcopy(value)


def _type_schema(info: inspect.Type, table: Table) -> Schema:
    match info:
        case inspect.UnionType():
            options = [option for option in info.types if not isinstance(option, inspect.NoneType)]
            if len(options) == 1:
                return _type_schema(options[0], table)
            if {type(option) for option in options} == {inspect.StrType, inspect.IntType}:
                return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
        case inspect.StructType():
            return struct_schema(info.cls, table)
        case inspect.DictType(value_type=inspect.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": _item_schema(info.value_type, table)}
        case inspect.VarTupleType():
            return {"type": "array", "items": _item_schema(info.item_type, table)}
    if type(info) in _PLAIN:
        return dict(_PLAIN[type(info)])
    raise TypeError(f"no schema for {info}")


def _item_schema(info: inspect.Type, table: Table) -> Schema:
    """Return the schema of each of many; the description is that of all of them."""
    return {name: value for name, value in _type_schema(info, table).items() if name != "description"}


def _summary(struct: type) -> str:
    """Return the first paragraph of a struct's docstring, on one line."""
    doc = python_inspect.getdoc(struct) or ""
    return " ".join(doc.partition("\n\n")[0].split())
