"""Structural schemas: kube-apiserver's treatment of a custom object by the `openAPIV3Schema` of its CRD.

In its order: unknown fields are pruned, defaults set, and the result is validated. jsonschema validates; this module
translates the Kubernetes dialect for it, and its errors into kube-apiserver's messages. CEL rules are not evaluated: a
custom resource has its own validator for these (`custom_resources`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from tfoperator.local.apiserver.errors import FieldProblem, invalid_value, not_supported, required
from tfoperator.local.apiserver.objects.quick_jsonschema import Draft4Validator, FormatChecker, ValidationError

_Schema = Mapping[str, Any]
_ALWAYS_KNOWN = frozenset({"apiVersion", "kind", "metadata"})
_INTEGER_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}

_formats = FormatChecker(formats=())


@_formats.checks("date-time")
def _is_date_time(value: object) -> bool:
    if not isinstance(value, str):
        return True
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


class StructuralSchema:
    """The schema of one version of a custom resource. Immutable, thread-safe.

    It is compiled when the first object is checked: many processes never see an object of an older version.
    """

    def __init__(self, schema: _Schema) -> None:
        """Take the CRD's `openAPIV3Schema`."""
        self._schema = schema

    @cached_property
    def _validator(self) -> Draft4Validator:
        # Threads that come at the same time may each compile it; each result is the same.
        return Draft4Validator(_translate(self._schema), format_checker=_formats)

    def only(self, field: str) -> StructuralSchema:
        """Return a schema that checks one top-level field only."""
        properties = {name: member for name, member in (self._schema.get("properties") or {}).items() if name == field}
        return StructuralSchema({"type": "object", "properties": properties})

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Remove, in place, every field that the schema doesn't know; return their paths."""
        dropped: list[str] = []
        _prune(obj, self._schema, "", dropped, _ALWAYS_KNOWN)
        return dropped

    def default(self, obj: dict[str, Any]) -> None:
        """Set the defaults of absent fields. A null that isn't allowed counts as absent, and is removed."""
        _default(obj, self._schema)

    def validate(self, obj: dict[str, Any]) -> list[FieldProblem]:
        """Return all problems, in the order of the paths."""
        problems = {problem for error in self._validator.iter_errors(obj) for problem in _describe(error)}
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


def _translate(schema: _Schema) -> dict[str, Any]:
    """Return the equivalent JSON Schema (draft 4, on which OpenAPI 3.0 is based)."""
    out = {
        key: value
        for key, value in schema.items()
        if not key.startswith("x-kubernetes-") and key not in ("default", "description", "nullable", "example", "title")
    }
    if schema.get("x-kubernetes-int-or-string"):
        out.pop("type", None)
        out["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    for key in ("properties", "patternProperties"):
        if isinstance(out.get(key), dict):
            out[key] = {name: _translate(member) for name, member in out[key].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(out.get(key), dict):
            out[key] = _translate(out[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(out.get(key), list):
            out[key] = [_translate(member) for member in out[key]]
    if bounds := _INTEGER_BOUNDS.get(str(out.get("format"))):
        out.setdefault("minimum", bounds[0])
        out.setdefault("maximum", bounds[1])
    if schema.get("nullable"):
        if "type" in out:
            out["type"] = [out["type"], "null"]
        if "enum" in out:
            out["enum"] = [*out["enum"], None]
    return out


def _path(parts: Iterable[str | int]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _json_type(value: object) -> str:
    names: list[tuple[type | tuple[type, ...], str]] = [
        (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object")
    ]  # fmt: skip
    return next((name for kind, name in names if isinstance(value, kind)), "null")


def _describe(error: ValidationError) -> Iterable[FieldProblem]:
    """Yield the problems of one jsonschema error, in kube-apiserver's words."""
    path = _path(error.absolute_path)
    value: Any = error.instance
    limit: Any = error.validator_value
    schema: Any = error.schema
    match error.validator:
        case "required":
            return [required(_path((*error.absolute_path, name))) for name in limit if name not in value]
        case "enum":
            return [not_supported(path, value, limit)]
        case "type":
            wanted = limit if isinstance(limit, str) else limit[0]
            return [
                invalid_value(path, _json_type(value), f"{path} in body must be of type {wanted}: {_quoted(value)}")
            ]
        case "minimum":
            words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
            return [invalid_value(path, value, f"{path} in body should be {words} {limit}")]
        case "maximum":
            words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
            return [invalid_value(path, value, f"{path} in body should be {words} {limit}")]
        case "pattern":
            return [invalid_value(path, value, f"{path} in body should match '{limit}'")]
        case "minLength":
            return [invalid_value(path, value, f"{path} in body should be at least {limit} chars long")]
        case "maxLength":
            return [FieldProblem(path, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")]
        case "minItems" | "minProperties":
            return [invalid_value(path, value, f"{path} in body should have at least {limit} {_things(value)}")]
        case "maxItems" | "maxProperties":
            return [FieldProblem(path, "FieldValueTooMany", f"Too many: must have at most {limit} {_things(value)}")]
        case "format":
            return [invalid_value(path, value, f"{path} in body must be of type {limit}: {_quoted(value)}")]
    return [invalid_value(path, value, error.message)]


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str | int | float) else f'"{_json_type(value)}"'


def _things(value: object) -> str:
    return "properties" if isinstance(value, dict) else "items"
