"""The schemas of the built-in kinds, with the fields that Kubernetes publishes: what `kubectl explain` shows.

They are read when somebody asks, and not kept: a server that nobody asks pays nothing for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.local.apiserver.resource_types import ResourceType

FILE = Path(__file__).with_name("builtin_schemas.json")
"""Made by hack/builtin_schemas.py."""

REFERENCE = "#/components/schemas/"

Schemas = Mapping[str, Any]


def read() -> dict[str, Any]:
    """All of them, by their names."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Any])


def names_of(schemas: Schemas, resources: Iterable[ResourceType]) -> dict[ResourceType, str]:
    """The names of the schemas of these resources; without those that are not described."""
    by_kind = {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, schema in schemas.items()
        for kind in schema.get("x-kubernetes-group-version-kind") or ()
    }
    found = {one: by_kind.get((one.group, one.version, one.kind)) for one in resources}
    return {resource: name for resource, name in found.items() if name is not None}


def reachable(schemas: Schemas, names: Iterable[str]) -> dict[str, Any]:
    """These schemas, and all that they refer to."""
    chosen: dict[str, Any] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in chosen:
            chosen[name] = schemas[name]
            waiting += _references(schemas[name])
    return chosen


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _references(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key == "$ref" and isinstance(one, str):
                yield one.removeprefix(REFERENCE)
            else:
                yield from _references(one)
