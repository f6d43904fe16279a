"""The subset of JSONPath that printer columns use: members, indexes, slices and filters on equality.

Examples: `.status.conditions[-1:].type`, `.status.conditions[?(@.type=="Ready")].status`, `.metadata.labels['a/b']`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tfoperator.local.apiserver.members import member_at

_Step = Callable[[Any], Iterator[Any]]
JSONPath = Callable[[Any], list[Any]]

_TOKEN = re.compile(
    r"""\.(?P<name>[^.\[\]]+)
      | \[(?P<index>-?\d+)\]
      | \[(?P<start>-?\d*):(?P<end>-?\d*)\]
      | \[(?P<every>\*)\]
      | \[(?P<quote>['"])(?P<key>.*?)(?P=quote)\]
      | \[\?\(\s*@\.(?P<field>[^=\s]+)\s*==\s*(?P<quote2>['"])(?P<value>.*?)(?P=quote2)\s*\)\]
    """,
    re.VERBOSE,
)


def compile_path(path: str) -> JSONPath:
    """Return the compiled path.

    The compiled path is a function. It returns all values that an object has at the path, or an empty list.
    Raises ValueError if the path is invalid.
    """
    steps: list[_Step] = []
    position = 0
    while position < len(path):
        match = _TOKEN.match(path, position)
        if match is None:
            raise ValueError(f"JSONPath {path!r} can't be read from {path[position:]!r} on")
        steps.append(_step(match))
        position = match.end()

    def evaluate(root: Any) -> list[Any]:
        values = [root]
        for step in steps:
            values = [child for value in values for child in step(value)]
        return values

    return evaluate


def _step(match: re.Match[str]) -> _Step:
    groups = match.groupdict()
    name = groups["name"] or groups["key"]
    if name is not None:
        return lambda value: iter([value[name]] if isinstance(value, dict) and name in value else ())
    if groups["index"] is not None:
        index = int(groups["index"])
        return lambda value: iter(
            [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else ()
        )
    if groups["start"] is not None:
        bounds = slice(*(int(part) if part else None for part in (groups["start"], groups["end"])))
        return lambda value: iter(value[bounds] if isinstance(value, list) else ())
    if groups["every"] is not None:
        return _every
    field, wanted = groups["field"].split("."), groups["value"]
    return lambda value: (item for item in _every(value) if member_at(item, field) == wanted)


def _every(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        return iter(value)
    return iter(value.values() if isinstance(value, dict) else ())
