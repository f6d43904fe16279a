"""The fields of the built-in kinds at every depth, and the removal of fields that Kubernetes doesn't have.

kube-apiserver decodes a body into Go structs, so it never stores an unknown field. kube-apiserver lists the unknown
fields in a warning. If the client requests strict validation, as kubectl does by default, kube-apiserver refuses the
write.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.local.apiserver.members import Json

BUILTIN_SCHEMAS = Path(__file__).with_name("builtin_schemas.json")
"""The built-in kinds, with the fields that Kubernetes publishes. hack/builtin_schemas.py generates the file."""

REFERENCE_PREFIX = "#/components/schemas/"
"""The beginning of a reference from a schema to another schema in `BUILTIN_SCHEMAS`."""

Schemas = Mapping[str, Any]
"""The schemas in `BUILTIN_SCHEMAS` by their names, such as `io.k8s.api.core.v1.Pod`."""


class _Type(msgspec.Struct):
    """A type with fields, such as PodSpec.

    `fields` maps the name of each field to the type of the field's value, or, for a list, to the type of the items. The
    type is None for a value without fields, such as a text.
    """

    fields: dict[str, _Type | None]


def read_schemas() -> Schemas:
    """Read `BUILTIN_SCHEMAS`, and return the schemas of the built-in kinds, by their names in Kubernetes."""
    return msgspec.json.decode(BUILTIN_SCHEMAS.read_bytes(), type=dict[str, Any])


def drop_unknown_fields(kind: str, obj: Json) -> list[str]:
    """Remove, in place, every field that an object of this built-in kind can't have. Return the paths of these fields.

    `kind` is `Pod`, for example. For a kind outside of the core group, a dot and the group follow: `Deployment.apps`.
    An object of a kind that `builtin_schemas.json` does not contain stays unchanged.
    """
    dropped: list[str] = []
    _drop(obj, _types().get(kind), "", dropped)
    return dropped


def _drop(value: object, of: _Type | None, path: str, dropped: list[str]) -> None:
    if of is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            _drop_members(item, of, f"{path}[{index}]", dropped)
    else:
        _drop_members(value, of, path, dropped)


def _drop_members(value: object, of: _Type, path: str, dropped: list[str]) -> None:
    if not isinstance(value, dict):
        return
    for name in list(value):
        at = f"{path}.{name}" if path else name
        if name not in of.fields:
            dropped.append(at)
            del value[name]
        elif isinstance(value[name], dict | list):
            _drop(value[name], of.fields[name], at, dropped)


@cache
def _types() -> Mapping[str, _Type]:
    """Return the type of each built-in kind, except CustomResourceDefinition.

    Clients can't write CRDs here, and the schemas in a CRD may have fields with any name.
    """
    schemas = read_schemas()
    types = {name: _Type({}) for name, schema in schemas.items() if "properties" in schema}
    for name, of in types.items():
        of.fields.update({field: _type_in(member, types) for field, member in schemas[name]["properties"].items()})
    kinds = {
        f"{kind['kind']}.{kind['group']}" if kind["group"] else kind["kind"]: types[name]
        for name, schema in schemas.items()
        for kind in schema.get("x-kubernetes-group-version-kind") or ()
    }
    kinds.pop("CustomResourceDefinition.apiextensions.k8s.io", None)
    return kinds


def _type_in(member: Mapping[str, Any], types: Mapping[str, _Type]) -> _Type | None:
    if "allOf" in member:
        return _type_in(member["allOf"][0], types)
    if "items" in member:
        return _type_in(member["items"], types)
    # Maps with arbitrary keys, such as labels and limits, contain only texts and quantities: keep all their members.
    return types.get(str(member.get("$ref", "")).removeprefix(REFERENCE_PREFIX))
