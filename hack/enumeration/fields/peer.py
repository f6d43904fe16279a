"""The fields that the Go operator's jobs have, too."""

from __future__ import annotations

from typing import Any

from hack.bench.contestants import peer_crd
from hack.enumeration.fields.changes import V1, Json, Subject


def common_subject() -> Subject:
    """The whole job with the fields alone that both CRDs describe."""
    [version] = peer_crd()["spec"]["versions"]
    schema = _common(V1.schema, version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    spec: Json = _described(V1.spec, schema)
    return Subject("v1", spec, schema, {})


def _common(ours: Json, theirs: Json) -> Json:
    schema = dict(ours)
    if "properties" in ours:
        their_properties = theirs.get("properties", {})
        schema["properties"] = {
            name: _common(field, their_properties[name])
            for name, field in ours["properties"].items()
            if name in their_properties
        }
    for below in ("items", "additionalProperties"):
        if isinstance(ours.get(below), dict):
            schema[below] = _common(ours[below], theirs.get(below, {}))
    return schema


def _described(value: Any, schema: Json) -> Any:
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    return {
        name: _described(member, properties.get(name, rest))
        for name, member in value.items()
        if name in properties or rest
    }
