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
    found = dict(ours)
    if "properties" in ours:
        known = theirs.get("properties", {})
        found["properties"] = {
            name: _common(one, known[name]) for name, one in ours["properties"].items() if name in known
        }
    for below in ("items", "additionalProperties"):
        if isinstance(ours.get(below), dict):
            found[below] = _common(ours[below], theirs.get(below, {}))
    return found


def _described(value: Any, schema: Json) -> Any:
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    known, rest = schema.get("properties", {}), schema.get("additionalProperties", {})
    return {name: _described(one, known.get(name, rest)) for name, one in value.items() if name in known or rest}
