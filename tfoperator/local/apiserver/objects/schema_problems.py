"""Validates a value by an OpenAPI schema of Kubernetes, with kube-apiserver's wording. Pure.

Structural schemas allow only a few keywords, and this module supports all of them. A JSON Schema library supports many
more keywords, and validators for their formats. Importing such a library took a tenth of the CPU time of a short run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from tfoperator.local.apiserver.errors import FieldProblem, invalid_value, not_supported, required

_Schema = Mapping[str, Any]
_INTEGER_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def problems_of(value: object, schema: _Schema, path: str = "") -> Iterator[FieldProblem]:
    """Yield each problem of a value and of its members.

    `path` is the path of the value. If several parts of the schema find the same problem, it is yielded several times.
    """
    if value is None and schema.get("nullable"):
        return
    wanted = _types(schema)
    if wanted and not any(_is_of(value, name) for name in wanted):
        what = ",".join(wanted)
        yield invalid_value(path, _json_type(value), f"{path} in body must be of type {what}: {_quoted(value)}")
    if (allowed := schema.get("enum")) is not None and not any(_same(value, candidate) for candidate in allowed):
        yield not_supported(path, value, allowed)
    match value:
        case bool():
            pass
        case int() | float():
            yield from _of_number(value, schema, path)
        case str():
            yield from _of_text(value, schema, path)
        case list():
            yield from _of_list(value, schema, path)
        case dict():
            yield from _of_object(value, schema, path)
    if not schema.get("x-kubernetes-int-or-string"):  # with this keyword, anyOf can only repeat the two types
        yield from _of_combinations(value, schema, path)


def _types(schema: _Schema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if "type" in schema else ()


def _of_number(value: float, schema: _Schema, path: str) -> Iterator[FieldProblem]:
    least, most = _INTEGER_BOUNDS.get(schema.get("format", ""), (None, None))
    least, most = schema.get("minimum", least), schema.get("maximum", most)
    if least is not None:
        exclusive = schema.get("exclusiveMinimum")
        if value < least or (exclusive and value == least):
            words = "greater than" if exclusive else "greater than or equal to"
            yield invalid_value(path, value, f"{path} in body should be {words} {least}")
    if most is not None:
        exclusive = schema.get("exclusiveMaximum")
        if value > most or (exclusive and value == most):
            words = "less than" if exclusive else "less than or equal to"
            yield invalid_value(path, value, f"{path} in body should be {words} {most}")
    if (factor := schema.get("multipleOf")) and value % factor:
        yield invalid_value(path, value, f"{path} in body should be a multiple of {factor}")


def _of_text(value: str, schema: _Schema, path: str) -> Iterator[FieldProblem]:
    if len(value) < (least := schema.get("minLength", 0)):
        yield invalid_value(path, value, f"{path} in body should be at least {least} chars long")
    if (most := schema.get("maxLength")) is not None and len(value) > most:
        yield FieldProblem(path, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")
    if (pattern := schema.get("pattern")) is not None and not _compiled(pattern).search(value):
        yield invalid_value(path, value, f"{path} in body should match '{pattern}'")
    if schema.get("format") == "date-time" and not _is_date_time(value):
        yield invalid_value(path, value, f"{path} in body must be of type date-time: {_quoted(value)}")


def _of_list(value: list[Any], schema: _Schema, path: str) -> Iterator[FieldProblem]:
    yield from _of_size(value, "items", schema.get("minItems", 0), schema.get("maxItems"), path)
    if isinstance(items := schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from problems_of(item, items, f"{path}[{index}]")


def _of_object(value: dict[str, Any], schema: _Schema, path: str) -> Iterator[FieldProblem]:
    yield from _of_size(value, "properties", schema.get("minProperties", 0), schema.get("maxProperties"), path)
    for name in schema.get("required", ()):
        if name not in value:
            yield required(_member(path, name))
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, member in value.items():
        if name in properties:
            yield from problems_of(member, properties[name], _member(path, name))
        elif isinstance(others, dict):
            yield from problems_of(member, others, _member(path, name))


def _of_size(
    value: list[Any] | dict[str, Any], things: str, least: int, most: int | None, path: str
) -> Iterator[FieldProblem]:
    if len(value) < least:
        yield invalid_value(path, value, f"{path} in body should have at least {least} {things}")
    if most is not None and len(value) > most:
        yield FieldProblem(path, "FieldValueTooMany", f"Too many: must have at most {most} {things}")


def _of_combinations(value: object, schema: _Schema, path: str) -> Iterator[FieldProblem]:
    """Yield the problems that `allOf` finds, and the problem of a value that `anyOf`, `oneOf` or `not` forbids."""
    for member in schema.get("allOf", ()):
        yield from problems_of(value, member, path)
    if "anyOf" in schema and not _fitting(value, schema["anyOf"]):
        yield _combined(path, value, "at least one schema (anyOf)")
    if "oneOf" in schema and _fitting(value, schema["oneOf"]) != 1:
        yield _combined(path, value, "one and only one schema (oneOf)")
    if "not" in schema and _fitting(value, [schema["not"]]):
        yield invalid_value(path, _json_type(value), f"{path} in body must not validate the schema (not)")


def _fitting(value: object, schemas: Iterable[_Schema]) -> int:
    return sum(next(problems_of(value, schema), None) is None for schema in schemas)


def _combined(path: str, value: object, what: str) -> FieldProblem:
    return invalid_value(path, _json_type(value), f"{path} in body must validate {what}")


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _is_date_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _json_type(value: object) -> str:
    names: list[tuple[type | tuple[type, ...], str]] = [
        (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object")
    ]  # fmt: skip
    return next((name for kind, name in names if isinstance(value, kind)), "null")


def _is_of(value: object, name: str) -> bool:
    """Return whether a value has the type `name` of JSON schemas. An integer is also a number.

    A number without a fraction, such as 2.0, is also an integer.
    """
    own = _json_type(value)
    whole = isinstance(value, float) and value.is_integer()
    return own == name or (name == "number" and own == "integer") or (name == "integer" and whole)


def _same(value: object, other: object) -> bool:
    """Return whether two JSON values are equal. In Python, True equals 1, but in JSON, true does not."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str | int | float) else f'"{_json_type(value)}"'
