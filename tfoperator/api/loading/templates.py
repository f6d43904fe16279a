"""Recognizes a Helm template that a person gives by mistake instead of a manifest. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_EXPRESSION = re.compile(
    r"\{\{-?\s*(?:[.$]|(?:if|else|end|range|with|include|template|define|block|tpl|toYaml|required|default)\b)"
    r"[^\n{}]{0,200}\}\}"
)
_MAX_SHOWN = 60

RENDER_FIRST = "this file is a Helm template, not a manifest. Render it first: helm template CHART"
"""The advice for a person who has given a Helm template."""


def template_expression(text: str) -> tuple[int, str] | None:
    """Return the line (from 1) and the text of the first expression of a Helm template; None if there is none."""
    match = _EXPRESSION.search(text)
    return None if match is None else (text.count("\n", 0, match.start()) + 1, match[0][:_MAX_SHOWN])


def templated_fields(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each string that contains an expression of a Helm template; `value` is plain data."""
    if isinstance(value, str):
        if _EXPRESSION.search(value):
            yield path
    elif isinstance(value, dict):
        for name, child in value.items():
            yield from templated_fields(child, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield from templated_fields(child, f"{path}[{position}]")
