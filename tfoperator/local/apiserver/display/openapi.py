"""OpenAPI documents, as much as clients need: `kubectl explain`, and who checks unknown fields.

Each PATCH operation lists the `fieldValidation` parameter, by which kubectl
learns that the server checks fields, so that it does not try to with a schema of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.local.apiserver.objects import CustomResource
from tfoperator.local.apiserver.resource_types import BUILTIN, ResourceType

OPENAPI_V2_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""How kubectl asks for OpenAPI 2: it takes nothing else. An answer has a dot for the `@`, which MIME forbids."""

_Dict = dict[str, Any]

BUILTIN_SCHEMAS = Path(__file__).with_name("builtin_schemas.json")
"""The built-in kinds, with the fields that Kubernetes publishes; made by hack/builtin_schemas.py.

Read when somebody asks, and not kept: a server that nobody asks pays nothing for them."""

_REFERENCE = "#/components/schemas/"

Schemas = Mapping[str, Any]


def _builtin_schemas() -> dict[str, Any]:
    return msgspec.json.decode(BUILTIN_SCHEMAS.read_bytes(), type=dict[str, Any])


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
                yield one.removeprefix(_REFERENCE)
            else:
                yield from _references(one)


def openapi_v2_protobuf() -> bytes:
    """The document of OpenAPI 2 as protobuf: of no kind.

    kubectl wants it to validate a `kind: List`, and passes over the items whose kind isn't in it. With kinds it would
    compute strategic patches from them, too, for which these would have to say how each list is merged.
    """
    info = _text(1, _INFO["title"]) + _text(2, _INFO["version"])
    return _text(1, "2.0") + _bytes(2, info) + _bytes(8, b"")  # the numbers of OpenAPIv2.proto; 8 are the paths


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _bytes(number: int, value: bytes) -> bytes:
    assert len(value) < 128, "a longer one needs a length of several bytes"
    return bytes((number << 3 | 2, len(value))) + value


class OpenAPI:
    """The OpenAPI documents of a fixed set of resources."""

    def __init__(self, resources: Sequence[ResourceType], custom: Sequence[CustomResource]) -> None:
        """`custom` brings the schemas that are known in full."""
        self._resources = resources
        self._schemas = {c.resource: dict(c.openapi) for c in custom}

    def document(self, path: str) -> _Dict | None:
        """The document at a path below /openapi; None if there is none."""
        if path == "/openapi/v2":
            return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}
        if path == "/openapi/v3":
            return {"paths": {p: {"serverRelativeURL": f"/openapi/v3/{p}"} for p in self._group_paths()}}
        prefix = "/openapi/v3/"
        resources = self._group_paths().get(path[len(prefix) :]) if path.startswith(prefix) else None
        return self._group_document(resources) if resources else None

    def _group_paths(self) -> dict[str, list[ResourceType]]:
        paths: dict[str, list[ResourceType]] = {}
        for resource in self._resources:
            path = f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
            paths.setdefault(path, []).append(resource)
        return paths

    def _group_document(self, resources: list[ResourceType]) -> _Dict:
        paths: _Dict = {}
        published = _builtin_schemas() if any(resource in BUILTIN for resource in resources) else {}
        builtin = names_of(published, resources)
        schemas = reachable(published, builtin.values())
        for resource, name in builtin.items():
            schemas[name] = {**schemas[name], "description": _BUILTIN_TEXT.format(resource.kind)}
        for resource in resources:
            gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
            if (name := builtin.get(resource, "")) == "":
                package = ".".join(reversed(resource.group.split(".")))
                name = f"{package}.{resource.version}.{resource.kind}"
                schema = self._schemas.get(resource, {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
                schemas[name] = {**schema, "x-kubernetes-group-version-kind": [gvk]}
            base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
            scope = "/namespaces/{namespace}" if resource.namespaced else ""
            # No request content is listed on purpose: kubectl would compute strategic patches from these schemas, and
            # those of custom kinds say nothing of lists; for built-in kinds it has its own.
            operation = {
                "operationId": f"patch{resource.kind}",
                "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
                "responses": {"200": {"description": "OK", "content": _content(name)}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": gvk,
            }
            get = {**operation, "operationId": f"read{resource.kind}", "x-kubernetes-action": "get", "parameters": []}
            paths[f"{base}{scope}/{resource.plural}/{{name}}"] = {"get": get, "patch": operation}
        return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


_BUILTIN_TEXT = (
    "A {} of Kubernetes, with the fields and types that it has there. What each field means is told by "
    "`kubectl explain` against a cluster, and by the Kubernetes API reference."
)
_INFO = {"title": "Kubernetes (tfoperator, embedded)", "version": "v1.34.0"}


def _content(schema: str) -> _Dict:
    return {"application/json": {"schema": {"$ref": f"{_REFERENCE}{schema}"}}}
