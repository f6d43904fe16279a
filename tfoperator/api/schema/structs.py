"""Turns msgspec types into the structural schemas of a CustomResourceDefinition.

The types give the members' names and the form of their values. The declarations of the fields give the meaning,
bounds, allowed values and defaults (`tfoperator.api.fields.field`). A table gives the CEL rules over several fields
(`api.schema.fields`). So every field of the types is in the CRD, and a new field without a declaration raises an error
in this module.
"""

from __future__ import annotations

import copy
import inspect as python_inspect
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from tfoperator.api.fields.field import Field, declared, written_by_others
from tfoperator.api.fields.limits import INT32_MAX, MAX_OBJECT_NAME_LENGTH
from tfoperator.api.fields.structure import members
from tfoperator.api.schema.cel_rules import one_of_rule, unchangeable_rule
from tfoperator.api.schema.pod_schemas import brief, kubernetes_schema
from tfoperator.api.schema.pod_template_fields import VIEWS

Schema = dict[str, Any]

_RULES = "x-kubernetes-validations"

_PLAIN: Mapping[type, Schema] = {
    inspect.StrType: {"type": "string"},
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer", "format": "int32"},
    inspect.FloatType: {"type": "number"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
}


class Table(msgspec.Struct, frozen=True):
    """The additions to the schemas of structs, besides the declarations of the fields.

    `structs` has additions to the schema of a struct itself, such as CEL rules. `fields` has additions to the schemas
    of a struct's fields. `open_structs` has the structs in which all other members are kept unchecked. With `pods`, the
    schema includes the fields and types of Kubernetes' own types; without it, these types are open.
    """

    structs: Mapping[type, Mapping[str, Any]] = {}
    fields: Mapping[type, Mapping[str, Mapping[str, Any]]] = {}
    open_structs: frozenset[type] = frozenset()
    pods: bool = False


def struct_schema(struct: type[msgspec.Struct], table: Table) -> Schema:
    """Return the structural schema of a struct; each call returns a new object.

    Raises NotDeclared if a field has no declaration.
    """
    declarations = {name: declaration.field for name, declaration in declared(struct).items()}
    types = members(struct)
    additions = table.fields.get(struct, {})
    properties = {
        name: _field_schema(field, types[name].type, table, additions.get(name, {}))
        for name, field in declarations.items()
    }
    for name, field in written_by_others(struct).items():
        properties[name] = {"description": field.description, **copy.deepcopy(dict(field.schema))}
    schema: Schema = {
        "description": _summary(struct),
        "type": "object",
        "properties": dict(sorted(properties.items())),
    }
    required = [name for name, field in declarations.items() if field.required or types[name].required]
    if required:
        schema["required"] = sorted(required)
    if struct in table.open_structs:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema | copy.deepcopy(dict(table.structs.get(struct, {})))


def _field_schema(field: Field, info: inspect.Type, table: Table, addition: Mapping[str, Any]) -> Schema:
    view = VIEWS.get(field.kubernetes)
    if field.kubernetes and table.pods and not field.open:
        schema = kubernetes_schema(field.kubernetes)
        schema = brief(schema) if field.brief else schema
        for path, more in view.members.items() if view else ():
            _overlay(_at(schema, path), more)
    else:
        schema = struct_schema(view.struct, table) if view else _type_schema(info, table)
    for more in (field.schema, _bounds(field, info), addition):
        _overlay(schema, more)
    return {**schema, "description": field.description}


def _bounds(field: Field, info: inspect.Type) -> Schema:
    """Return the schema of a field's bounds and allowed values."""
    is_map = isinstance(_without_none(info), inspect.DictType)
    greatest = INT32_MAX if field.ge is not None and field.pattern is None else None
    each = {"format": "int64" if field.int64 else None, "pattern": field.pattern and field.pattern.expression}
    bounds = {
        "minimum": field.ge,
        "maximum": greatest if field.le is None else field.le,
        **({"additionalProperties": _there(each) or None} if is_map else each),
        "maxLength": field.max_length,
        "maxItems": field.max_items,
        # For the Go operator, the empty string means "unset".
        "enum": list(dict.fromkeys(["", *map(str, field.choices)])) if field.choices is not None else None,
        "default": field.default,
    }
    if field.one_of:
        bounds |= {"maxLength": MAX_OBJECT_NAME_LENGTH, _RULES: [one_of_rule(field.one_of)]}
    if field.unchangeable:
        bounds[_RULES] = [unchangeable_rule("{0}")]
    return _there(bounds)


def _there(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if value is not None}


def _at(schema: Schema, path: Sequence[str]) -> Schema:
    """Return the schema at a path of member names; lists in the path are replaced by their items."""
    for name in path:
        schema = schema.get("items", schema)["properties"][name]
    return schema


def _overlay(schema: Schema, addition: Mapping[str, Any]) -> None:
    """Merge an addition into a schema in place, at every level.

    So a table can limit a list's items without repeating their type.
    """
    for key, value in addition.items():
        below = schema.get(key)
        if isinstance(below, dict) and isinstance(value, Mapping):
            _overlay(below, value)
        else:
            schema[key] = copy.deepcopy(value)


def _without_none(info: inspect.Type) -> inspect.Type:
    """Return the type without null if exactly one type remains; otherwise return the type unchanged."""
    if isinstance(info, inspect.UnionType):
        options = [option for option in info.types if not isinstance(option, inspect.NoneType)]
        return options[0] if len(options) == 1 else info
    return info


def _type_schema(info: inspect.Type, table: Table) -> Schema:
    match info:
        case inspect.UnionType():
            only = _without_none(info)
            if only is not info:
                return _type_schema(only, table)
            options = [option for option in info.types if not isinstance(option, inspect.NoneType)]
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
    """Return the schema of an item of a list or map, without a description: the list or map has the description."""
    return {name: value for name, value in _type_schema(info, table).items() if name != "description"}


def _summary(struct: type) -> str:
    """Return the first paragraph of a struct's docstring, on one line."""
    doc = python_inspect.getdoc(struct) or ""
    return " ".join(doc.partition("\n\n")[0].split())


def type_words(schema: Schema) -> str:
    """Return the type of a field in words: `list of string`, `map of object`, `time`."""
    if "items" in schema:
        return f"list of {type_words(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {type_words(schema['additionalProperties'])}"
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    return "time" if schema.get("format") == "date-time" else str(schema.get("type", "any value"))
