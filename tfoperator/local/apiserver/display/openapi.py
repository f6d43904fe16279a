"""The OpenAPI documents that clients read.

`kubectl explain` reads the OpenAPI 3 documents. Headlamp's editor shows the fields of the OpenAPI 2 document.

Before kubectl sends an object, kubectl looks in the OpenAPI 3 document whether the PATCH operation has the parameter
`fieldValidation`. Each PATCH operation has it here. So kubectl leaves the check for unknown fields to the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfoperator.api.replicas.names import EMBEDDED_KUBERNETES
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.objects.builtin_fields import REFERENCE_PREFIX, Schemas, read_schemas
from tfoperator.local.apiserver.objects.custom_resources import CustomResource
from tfoperator.local.apiserver.resource_types import BUILTIN, ResourceType

OPENAPI_V2_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""The only media type that kubectl accepts for OpenAPI 2. In a response, a dot replaces the `@`, because MIME does not
allow `@`.
"""


def names_of(schemas: Schemas, resources: Iterable[ResourceType]) -> dict[ResourceType, str]:
    """Return a dict from each of these resources to the name of its schema. Leave out resources without a schema."""
    by_kind = {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, schema in schemas.items()
        for kind in schema.get("x-kubernetes-group-version-kind") or ()
    }
    names_by_resource = {
        resource: by_kind.get((resource.group, resource.version, resource.kind)) for resource in resources
    }
    return {resource: name for resource, name in names_by_resource.items() if name is not None}


def reachable(schemas: Schemas, names: Iterable[str]) -> dict[str, Any]:
    """Return the schemas with these names, and all schemas that they refer to, directly or through other schemas."""
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
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        for key, member in value.items():
            if key == "$ref" and isinstance(member, str):
                yield member.removeprefix(REFERENCE_PREFIX)
            else:
                yield from _references(member)


def _in_openapi_2(value: Any) -> Any:
    """Return a schema in the form of OpenAPI 2.

    References in the result point to `#/definitions/`. In OpenAPI 3, a reference is inside `allOf` if the schema has
    more members, such as a description. The result contains only the reference, because OpenAPI 2 ignores the other
    members.
    """
    if isinstance(value, list):
        return [_in_openapi_2(item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("$ref"), str):
        return {"$ref": f"#/definitions/{value['$ref'].removeprefix(REFERENCE_PREFIX)}"}
    match value:
        case {"allOf": [{"$ref": str(reference)}]}:
            return _in_openapi_2({"$ref": reference})
    return {name: _in_openapi_2(member) for name, member in value.items()}


def openapi_v2_protobuf() -> bytes:
    """Return the OpenAPI 2 document as protobuf, without any kinds.

    kubectl needs this document to validate an object of `kind: List`. For each item of the list, kubectl looks for the
    kind in the document. It doesn't check the item if the document lacks the kind. If the document contained kinds,
    kubectl would also compute strategic merge patches from it. For these patches, the document would have to describe
    how each list is merged.
    """
    info = _text(1, _INFO_OBJECT["title"]) + _text(2, _INFO_OBJECT["version"])
    return _text(1, "2.0") + _bytes(2, info) + _bytes(8, b"")  # the field numbers of OpenAPIv2.proto; 8 is the paths


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _bytes(number: int, value: bytes) -> bytes:
    assert len(value) < 128, "a longer block needs a length of several bytes"
    return bytes((number << 3 | 2, len(value))) + value


class OpenAPI:
    """The OpenAPI documents of a fixed set of resources."""

    def __init__(self, resources: Sequence[ResourceType], custom: Sequence[CustomResource]) -> None:
        """Take the resources of the server. `custom` are its custom resources, with their schemas."""
        self._resources = resources
        self._schemas = {c.resource: dict(c.openapi) for c in custom}

    def document(self, path: str) -> Json | None:
        """Return the document at a path below /openapi. Return None if there is none."""
        if path == "/openapi/v2":
            return {"swagger": "2.0", "info": _INFO_OBJECT, "paths": {}, "definitions": self._definitions()}
        if path == "/openapi/v3":
            return {"paths": {p: {"serverRelativeURL": f"/openapi/v3/{p}"} for p in self._group_paths()}}
        prefix = "/openapi/v3/"
        resources = self._group_paths().get(path[len(prefix) :]) if path.startswith(prefix) else None
        return self._group_document(resources) if resources else None

    def _definitions(self) -> Json:
        """Return the schemas of all kinds, in the form of OpenAPI 2. Editors show them as documentation."""
        schemas: Json = {}
        for resources in self._group_paths().values():
            schemas |= self._group_document(resources)["components"]["schemas"]
        definitions: Json = _in_openapi_2(schemas)
        return definitions

    def _group_paths(self) -> dict[str, list[ResourceType]]:
        paths: dict[str, list[ResourceType]] = {}
        for resource in self._resources:
            path = f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
            paths.setdefault(path, []).append(resource)
        return paths

    def _group_document(self, resources: list[ResourceType]) -> Json:
        paths: Json = {}
        builtin = any(resource in BUILTIN for resource in resources)
        published = read_schemas() if builtin else {}
        names = names_of(published, resources)
        schemas = reachable(published, names.values())
        for resource, name in names.items():
            schemas[name] = {**schemas[name], "description": _BUILTIN_TEXT.format(resource.kind)}
        for resource in resources:
            gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
            if (name := names.get(resource, "")) == "":
                package = ".".join(reversed(resource.group.split(".")))
                name = f"{package}.{resource.version}.{resource.kind}"
                schema = self._schemas.get(resource, {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
                schemas[name] = {**schema, "x-kubernetes-group-version-kind": [gvk]}
            base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
            scope = "/namespaces/{namespace}" if resource.namespaced else ""
            # The content of requests is left out on purpose. With it, kubectl would compute strategic patches from
            # these schemas, but the schemas of custom kinds do not describe how to merge lists. For built-in kinds,
            # kubectl has its own schemas.
            operation = {
                "operationId": f"patch{resource.kind}",
                "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
                "responses": {"200": {"description": "OK", "content": _content(name)}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": gvk,
            }
            get = {**operation, "operationId": f"read{resource.kind}", "x-kubernetes-action": "get", "parameters": []}
            paths[f"{base}{scope}/{resource.plural}/{{name}}"] = {"get": get, "patch": operation}
        return {"openapi": "3.0.0", "info": _INFO_OBJECT, "paths": paths, "components": {"schemas": schemas}}


_BUILTIN_TEXT = (
    "A {} of Kubernetes, with the same fields and types. The meaning of the fields is in the Kubernetes API "
    "reference, and in the output of `kubectl explain` for a real cluster."
)
_INFO_OBJECT = {"title": "Kubernetes (tfoperator, embedded)", "version": EMBEDDED_KUBERNETES}


def _content(schema: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"{REFERENCE_PREFIX}{schema}"}}}
