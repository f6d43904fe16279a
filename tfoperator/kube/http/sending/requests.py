"""Builds requests, without I/O: paths, queries, headers, bodies, patches, and descriptions for error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from tfoperator.kube.protocol.options import ListOptions, WatchOptions
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import Body, Creation, Deletion, Lookup, Modification, Replacement, Request
from tfoperator.kube.views.objects import ObjectMeta

JSON = "application/json"
METADATA_OF_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
METADATA_OF_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class Call(msgspec.Struct, frozen=True):
    """One request.

    `target` is the path and the query. `what` describes the request for users, for example `create pods default/a`.
    `written` is the resource that the request writes, for example `pods` or `tfjobs/status`. For a request that writes
    nothing, `written` is empty.
    """

    method: str
    target: str
    what: str
    body: bytes | None = None
    accept: str = JSON
    content_type: str = JSON
    limited: bool = True  # by the client's own rate limiter
    written: str = ""


def call_of(request: Request, accept: str = METADATA_OF_ONE) -> Call:
    """Return the call for a request. `accept` is the value of its `Accept` header.

    Raises ValueError if the name is missing, and TypeError for values that JSON can't represent.
    """
    match request:
        case Creation():
            return _create(request, accept)
        case Deletion():
            return _delete(request, accept)
        case Modification():
            return _write("PATCH", request, request.patch, request.patch_type.value, accept)
        case Replacement():
            return _write("PUT", request, request.body, JSON, accept)
        case Lookup(resource=resource, namespace=namespace, name=name):
            what = describe("get", resource, namespace, name)
            return Call("GET", object_path(resource, namespace, name), what, accept=accept)


def _create(request: Creation, accept: str) -> Call:
    resource, namespace = request.resource, request.namespace
    return Call(
        "POST",
        _path_of_all(resource, namespace) + (query_string(dryRun="All") if request.dry_run else ""),
        describe("create", resource, namespace, name_in(request.body)),
        encode(request.body),
        accept=accept,
        written=kind_of(resource),
    )


@lru_cache(1 << 10)  # called for each created object, of few kinds per namespace
def _path_of_all(resource: Resource, namespace: str) -> str:
    return resource.path(namespace)


def _write(
    method: str, request: Modification | Replacement, body: Body | Sequence[Any], content_type: str, accept: str
) -> Call:
    target = (request.resource, request.namespace, request.name, request.subresource)
    return Call(
        method,
        object_path(*target),
        describe("patch" if method == "PATCH" else "replace", *target),
        encode(body),
        accept=accept,
        content_type=content_type,
        written=kind_of(request.resource, request.subresource),
    )


def _delete(request: Deletion, accept: str) -> Call:
    options: dict[str, Any] = {}
    if preconditions := {
        key: value for key, value in (("uid", request.uid), ("resourceVersion", request.resource_version)) if value
    }:
        options["preconditions"] = preconditions
    if request.grace_period_seconds is not None:
        options["gracePeriodSeconds"] = request.grace_period_seconds
    if request.propagation_policy:
        options["propagationPolicy"] = request.propagation_policy
    target = (request.resource, request.namespace, request.name)
    return Call(
        "DELETE",
        object_path(*target),
        describe("delete", *target),
        encode({"apiVersion": "v1", "kind": "DeleteOptions", **options}) if options else None,
        accept=accept,
        written=kind_of(request.resource),
    )


def _as_dict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} can't be written as JSON")


_encode_json = msgspec.json.Encoder(enc_hook=_as_dict).encode


def object_path(resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of an object, or of a subresource of the object.

    Raises ValueError if the name is missing, because the path without a name means all objects of the resource.
    """
    if not name:
        raise ValueError(f"the request needs a name: without a name, its path would mean all {resource.plural}")
    return resource.path(namespace, name, subresource)


def query_string(**parameters: str) -> str:
    """Return the query `?key=value&...` of the parameters that aren't empty.

    Return an empty string if all parameters are empty.
    """
    given = {key: value for key, value in parameters.items() if value}
    return "?" + urlencode(given, quote_via=quote) if given else ""


def list_query(options: ListOptions) -> str:
    """Return the query of a list with these options."""
    return query_string(
        labelSelector=options.label_selector,
        fieldSelector=options.field_selector,
        resourceVersion=options.resource_version,
        resourceVersionMatch=options.resource_version_match,
        limit=str(options.limit or ""),
        **{"continue": options.continue_token},
    )


def watch_query(options: WatchOptions) -> str:
    """Return the query of a watch with these options."""
    initial = options.send_initial_events
    return query_string(
        watch="true",
        labelSelector=options.label_selector,
        fieldSelector=options.field_selector,
        resourceVersion=options.resource_version,
        resourceVersionMatch=options.resource_version_match,
        timeoutSeconds=str(options.timeout_seconds),
        allowWatchBookmarks="true" if options.allow_watch_bookmarks else "",
        sendInitialEvents="" if initial is None else str(initial).lower(),
    )


def encode(body: Body | Sequence[Any]) -> bytes:
    """Return the bytes of a body. Raises TypeError for values that JSON can't represent."""
    return body if isinstance(body, bytes) else _encode_json(body)


def status_write(resource: Resource, meta: ObjectMeta, status: msgspec.Struct) -> Replacement:
    """Return the PUT that sets an object's status. The server responds with 409 if the version in `meta` is outdated.

    So if another process has changed the object since, or if a new object has the same name, the PUT changes nothing.
    The body contains only the fields that API servers read when they write a status. A PATCH would cost an API server a
    tenth to a quarter more CPU, because the server encodes, merges and decodes the whole object once more
    (docs/evidence/cost-of-a-request.md). The PUT replaces the whole status: fields that the type of `status` does not
    define are removed from the object.
    """
    metadata = {"name": meta.name, "namespace": meta.namespace, "resourceVersion": meta.resource_version}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "status": status}
    return Replacement(resource, meta.namespace, meta.name, body, "status")


def name_in(body: Body) -> str:
    """Return the object name in a body. If the server is to generate the name, the result ends in `*`."""
    # `dict` comes first: isinstance with the abstract type `Mapping` takes ten times as long.
    metadata = body.get("metadata") if isinstance(body, dict | Mapping) else None
    if not isinstance(metadata, dict | Mapping):
        return ""
    return str(metadata.get("name") or f"{metadata.get('generateName', '')}*")


def kind_of(resource: Resource, subresource: str = "") -> str:
    """Return the name of a resource, with the subresource if it is given, for example `pods` or `tfjobs/status`."""
    return f"{resource.plural}/{subresource}" if subresource else resource.plural


def describe(verb: str, resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return a text that describes a request to users, for example `create pods ns/name`."""
    kind = kind_of(resource, subresource)
    if name:
        return f"{verb} {kind} {namespace}/{name}" if namespace else f"{verb} {kind} {name}"
    return f"{verb} {kind} in {namespace}" if namespace else f"{verb} {kind}"
