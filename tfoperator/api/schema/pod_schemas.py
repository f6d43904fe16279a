"""The structural schemas of Kubernetes' own types in a TFJob, made from the table of `tfoperator.api.pods.types`.

A schema has fields, types, required members and descriptions. It has no defaults, so that API servers store a template
as its author wrote it. Only the list of containers has keys (`x-kubernetes-list-map-keys`), because for each list with
keys an API server needs time at every write.
"""

from __future__ import annotations

from typing import Any

from tfoperator.api.fields.limits import QUANTITY_PATTERN
from tfoperator.api.pods import types

Schema = dict[str, Any]

_OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

_PLAIN: dict[str, Schema] = {
    types.STRING: {"type": "string"},
    types.BOOLEAN: {"type": "boolean"},
    types.INT32: {"type": "integer", "format": "int32"},
    types.INT64: {"type": "integer", "format": "int64"},
    types.TIME: {"type": "string", "format": "date-time"},
    types.OBJECT: _OPEN,
    types.INT_OR_STRING: {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    # API servers take a fraction such as 0.5, too, but no type of a structural schema allows fractions beside strings.
    # Without a type, objects and lists must be excluded.
    types.QUANTITY: {
        "x-kubernetes-preserve-unknown-fields": True,
        "pattern": QUANTITY_PATTERN,
        "maxProperties": 0,
        "maxItems": 0,
    },
}

_OPEN_TYPES = frozenset({"EphemeralContainer", "ManagedFieldsEntry"})
"""Types that pod templates can't use: they have no schema of their own, which would be a tenth of the whole CRD."""


def kubernetes_schema(kind: str) -> Schema:
    """Return the schema of a Kubernetes type, such as `PodTemplateSpec` or `[]EnvVar`, as a new object each time."""
    prefix, name = types.schema_kind(kind)
    if prefix == types.LIST:
        return {"type": "array", "items": kubernetes_schema(name)}
    if prefix == types.MAP:
        return {"type": "object", "additionalProperties": kubernetes_schema(name)}
    if name in _PLAIN or name in _OPEN_TYPES:
        return dict(_PLAIN.get(name, _OPEN))
    of = types.pod_types()[name]
    schema: Schema = {
        "type": "object",
        "properties": {
            field: {**kubernetes_schema(field_kind), "description": types.description(name, field)}
            for field, field_kind in of.fields.items()
        },
    }
    return {**schema, "required": list(of.required)} if of.required else schema


def brief(schema: Schema) -> Schema:
    """Return a copy of the schema of an object, or of a list of objects, without descriptions below its direct fields.

    The function is for types that the CRD describes in full elsewhere. `kubectl apply` keeps a copy of the CRD in an
    annotation, whose size is limited, so a second full description has no room.
    """
    if "items" in schema:
        return {**schema, "items": brief(schema["items"])}
    fields = {
        name: {**without_descriptions(field), "description": field["description"]}
        for name, field in schema["properties"].items()
    }
    return {**schema, "properties": fields}


def without_descriptions(schema: Schema) -> Schema:
    """Return a copy of a schema without descriptions at any level, for a part that the CRD describes elsewhere."""
    copy: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            copy[key] = {name: without_descriptions(below) for name, below in value.items()}
        elif isinstance(value, dict):
            copy[key] = without_descriptions(value)
        elif key != "description":
            copy[key] = value
    return copy
