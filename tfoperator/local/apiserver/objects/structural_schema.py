"""Structural schemas: treat a custom object by the `openAPIV3Schema` of its CRD, as kube-apiserver does.

The order is kube-apiserver's: first unknown fields are pruned, then defaults are set, then the result is validated
(`schema_problems`). CEL rules are not evaluated here: each custom resource has its own validator for these rules
(`custom_resources`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tfoperator.local.apiserver.errors import FieldProblem
from tfoperator.local.apiserver.objects.schema_problems import problems_of

_Schema = Mapping[str, Any]
_ALWAYS_KNOWN = frozenset({"apiVersion", "kind", "metadata"})


class StructuralSchema:
    """The schema of one version of a custom resource. Immutable, thread-safe."""

    def __init__(self, schema: _Schema) -> None:
        """Initialize with the CRD's `openAPIV3Schema`."""
        self._schema = schema

    def only(self, field: str) -> StructuralSchema:
        """Return a schema that checks only the top-level field `field`."""
        properties = {name: member for name, member in (self._schema.get("properties") or {}).items() if name == field}
        return StructuralSchema({"type": "object", "properties": properties})

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Remove, in place, every field that the schema does not contain. Return the paths of these fields."""
        dropped: list[str] = []
        _prune(obj, self._schema, "", dropped, _ALWAYS_KNOWN)
        return dropped

    def default(self, obj: dict[str, Any]) -> None:
        """Set the defaults of absent fields. A null that the schema does not allow counts as absent, and is removed."""
        _default(obj, self._schema)

    def validate(self, obj: dict[str, Any]) -> list[FieldProblem]:
        """Return all problems, in the order of the paths."""
        problems = set(problems_of(obj, self._schema))
        return sorted(problems, key=lambda problem: (problem.field, problem.message))


def _prune(value: object, schema: _Schema, path: str, dropped: list[str], keep: frozenset[str] = frozenset()) -> None:
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            _prune(item, schema["items"], f"{path}[{index}]", dropped)
    if not isinstance(value, dict):
        return
    properties: _Schema = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    preserve = schema.get("x-kubernetes-preserve-unknown-fields") or others is True
    if schema.get("x-kubernetes-embedded-resource"):
        keep = _ALWAYS_KNOWN
    for name in list(value):
        at = f"{path}.{name}" if path else name
        if name in keep:
            continue  # object metadata is validated elsewhere; a schema can only restrict it, not list its fields
        if name in properties:
            _prune(value[name], properties[name], at, dropped)
        elif isinstance(others, dict):
            _prune(value[name], others, at, dropped)
        elif not preserve:
            dropped.append(at)
            del value[name]


def _default(value: object, schema: _Schema) -> None:
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            _default(item, schema["items"])
    if not isinstance(value, dict):
        return
    properties: _Schema = schema.get("properties") or {}
    for name, member in properties.items():
        absent = name not in value or (value[name] is None and not member.get("nullable"))
        if absent and "default" in member:
            value[name] = copy.deepcopy(member["default"])
        elif absent:
            value.pop(name, None)
        if name in value:
            _default(value[name], member)
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        for name in value.keys() - properties.keys():
            if value[name] is None and not others.get("nullable"):
                del value[name]
            else:
                _default(value[name], others)
