"""Resolvers of TFX: tasks that run no container, and choose artifacts of earlier runs by a filter.

A filter is a list of conditions in the filter language of ML Metadata, such as `schema_title="tfx.Model" AND
state=LIVE`. TFX writes two filters: for the newest artifact of a type, and for the newest blessed model. The module
does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfoperator.launcher import ComponentError
from tfoperator.launcher.core.component import Json
from tfoperator.pipeline.graph import Source
from tfoperator.pipeline.kfp.parts import Made, as_value, member, own_type
from tfoperator.pipeline.values import NEWEST, Value

_CONDITION = re.compile(r'\s*([\w.]+)\s*=\s*(?:"([^"]*)"|(-?\d+(?:\.\d+)?)|(true|false|[A-Z_]+))\s*(?:AND\b|$)')
_PROPERTY = re.compile(r"metadata\.(\w+)\.(number_value|string_value|bool_value)")
_ARTIFACT_PLACEHOLDER = re.compile(r"\{\{\$\.inputs\.artifacts\['([^']+)'\]\.metadata\['([^']+)'\]\}\}")
_PARAMETER_PLACEHOLDER = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")
_KINDS: Mapping[str, tuple[type, ...]] = {"number_value": (float,), "string_value": (str, Value), "bool_value": (bool,)}
_MAX_FILTER = 10_000
"""Maximum number of characters of a filter."""


def resolved(where: str, resolver: Json, inputs: Mapping[str, Source], parameters: Mapping[str, Any]) -> Made:
    """Return the outputs of a resolver: for each query, a `Value` for the newest matching artifact of earlier runs.

    If there is no such artifact, the result of the `Value` is empty. Raises ComponentError if a condition of a filter
    is not supported.
    """
    artifacts: dict[str, Source] = {}
    for key, query in resolver.get("outputArtifactQueries", {}).items():
        place = f"{where}.resolver.outputArtifactQueries.{key}"
        if query.get("limit", 1) not in (0, 1):
            raise ComponentError(f"{place}.limit: must be 1 here, but is {query['limit']}")
        artifacts[key] = _newest(f"{place}.filter", query.get("filter", ""), inputs, parameters)
    return Made((), {}, artifacts)


def _newest(where: str, text: str, inputs: Mapping[str, Source], parameters: Mapping[str, Any]) -> Value:
    kind, fields = "", list[Any]()
    for name, value in _conditions(where, text):
        given = _value_of(where, value, inputs, parameters) if isinstance(value, str) else value
        if name == "schema_title" and isinstance(given, str):
            kind = own_type(given)
        elif name == "state" and given == "LIVE":
            continue
        elif name == "name":
            fields += ["uri", given]
        elif (match := _PROPERTY.fullmatch(name)) is not None and isinstance(given, _KINDS[match[2]]):
            fields += [f"properties.{match[1]}", given]
        else:
            raise ComponentError(f"{where}: the condition {name}={str(value)[:100]!r} is not supported here")
    if not kind:
        raise ComponentError(f"{where}: must have a condition for schema_title")
    return Value(NEWEST, (kind, *fields))


def _conditions(where: str, text: str) -> list[tuple[str, str | float | bool]]:
    conditions: list[tuple[str, str | float | bool]] = []
    at = 0
    while at < len(text) <= _MAX_FILTER and (match := _CONDITION.match(text, at)) is not None:
        name, quoted, number, word = match.groups()
        value = quoted if quoted is not None else float(number) if number is not None else word
        conditions.append((name, value == "true" if value in ("true", "false") and quoted is None else value))
        at = match.end()
    if at < len(text) or not text or text.rstrip().endswith("AND"):
        raise ComponentError(f"{where}: the condition {text[at : at + 100]!r} is not supported here")
    return conditions


def _value_of(where: str, text: str, inputs: Mapping[str, Source], parameters: Mapping[str, Any]) -> Any:
    """Return the text in a condition. If the text is a placeholder, return the value that replaces the placeholder.

    Raises ComponentError if the placeholder is not supported.
    """
    if (match := _ARTIFACT_PLACEHOLDER.fullmatch(text)) is not None:
        return Value("property", (as_value(where, member(where, inputs, match[1])), 0, match[2]))
    if (match := _PARAMETER_PLACEHOLDER.fullmatch(text)) is not None:
        return member(where, parameters, match[1])
    if "{{$" in text:
        raise ComponentError(f"{where}: the placeholder {text[:100]!r} is not supported here")
    return text
