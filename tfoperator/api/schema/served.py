"""Finds the fields of this release that an API server does not serve for TFJobs, because its CRD is older. Pure.

An API server removes ("prunes") fields that its CRD does not have from an object. Most clients get no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfoperator.api.schema.crd import openapi_schema
from tfoperator.api.v1.types import TFJOBS

OPENAPI_PATH = f"/openapi/v3/apis/{TFJOBS.api_version}"
"""The path of the document with the fields that an API server serves. Kubernetes allows each authenticated account to
GET it (ClusterRole `system:discovery`), so the client does not need a right to read the CRD.
"""

_PARTS = ("spec", "status")
"""The members of a TFJob that are compared; API servers themselves define all other members."""


class FieldTree(msgspec.Struct, frozen=True):
    """The fields of an object, of an array (`items`) or of a map (`additional`); with `is_open`, any field is kept."""

    properties: Mapping[str, FieldTree] = {}
    items: FieldTree | None = None
    additional: FieldTree | bool | None = msgspec.field(default=None, name="additionalProperties")
    is_open: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")

    def field(self, name: str) -> FieldTree | None:
        """Return the tree of the member `name`, which may be any key of a map; None if there is no such member."""
        child = self.properties.get(name)
        if child is None and self.additional:
            return self.additional if isinstance(self.additional, FieldTree) else _OPEN
        return child


_OPEN = FieldTree(is_open=True)


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Schema(msgspec.Struct, frozen=True):
    kinds: tuple[_Kind, ...] = msgspec.field(default=(), name="x-kubernetes-group-version-kind")


class _Components(msgspec.Struct, frozen=True):
    schemas: dict[str, msgspec.Raw] = {}


class _Document(msgspec.Struct, frozen=True):
    components: _Components = _Components()


def served_fields(document: bytes) -> FieldTree:
    """Return the fields of TFJobs in the OpenAPI document at OPENAPI_PATH.

    Raises ValueError if the document has no TFJobs, and an error of `kube.protocol.errors.UNDECODABLE` if the document
    can't be decoded.
    """
    wanted = _Kind(TFJOBS.group, TFJOBS.version, TFJOBS.kind)
    for schema in msgspec.json.decode(document, type=_Document).components.schemas.values():
        if wanted in msgspec.json.decode(schema, type=_Schema).kinds:
            return msgspec.json.decode(schema, type=FieldTree)
    raise ValueError(f"{OPENAPI_PATH} has no schema for {TFJOBS.kind}")


def needed_fields() -> FieldTree:
    """Return the fields that a TFJob has in this release; each call returns a new object."""
    return msgspec.convert(openapi_schema(), FieldTree)


def missing_fields(needed: FieldTree, served: FieldTree) -> tuple[str, ...]:
    """Return the paths of the needed fields that are not served; if a whole object is missing, only its own path.

    A `*` stands for any key of a map.
    """
    return tuple(path for part in _PARTS for path in _missing(needed.field(part), served.field(part), part))


def _missing(needed: FieldTree | None, served: FieldTree | None, path: str) -> Iterator[str]:
    if needed is None:
        return
    if served is None or (needed.is_open and not served.is_open):
        yield path
        return
    if served.is_open:
        return
    for name, field in needed.properties.items():
        yield from _missing(field, served.field(name), f"{path}.{name}")
    if needed.items is not None:
        yield from _missing(needed.items, served.items, f"{path}[]")
    if isinstance(needed.additional, FieldTree):
        served_values = served.additional if isinstance(served.additional, FieldTree) else None
        yield from _missing(needed.additional, _OPEN if served.additional is True else served_values, f"{path}.*")


def pruned_fields(value: object, needed: FieldTree | None, served: FieldTree | None, path: str = "") -> Iterator[str]:
    """Yield the paths of fields of a decoded value that this release has, but that the API server would remove.

    Misspelt fields are not reported, because this release does not have them either.
    """
    if needed is None or (served is not None and served.is_open):
        return
    if served is None:
        yield path
        return
    if isinstance(value, dict):
        for key, member in value.items():
            yield from pruned_fields(member, needed.field(key), served.field(key), f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for member in value:
            yield from pruned_fields(member, needed.items, served.items, f"{path}[]")


def value_of_fields(fields: object) -> Any:
    """Build an object that has only the fields that `fieldsV1` of an entry in `metadata.managedFields` names.

    A field without further fields gets an empty object. A list gets one item for each `k:` key.
    """
    if not isinstance(fields, dict):
        return None
    items = [value_of_fields(member) for key, member in fields.items() if key.startswith("k:")]
    if items:
        return items
    return {key[2:]: value_of_fields(member) for key, member in fields.items() if key.startswith("f:")}
