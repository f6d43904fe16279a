"""Reads the bodies of requests, and makes the bodies of responses.

Requests contain objects in JSON or YAML, patches, and delete options. Responses contain objects in JSON, or a
Kubernetes `Status`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from tfoperator.base.yamldata.reader import YamlError, read_value
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.local.apiserver.errors import (
    FieldProblem,
    NoSuchPage,
    StatusError,
    bad_request,
    details_of,
    invalid_options,
    no_such_resource,
    not_supported,
    unsupported_media_type,
)
from tfoperator.local.apiserver.http import protobuf
from tfoperator.local.apiserver.http.api_request import ApiRequest
from tfoperator.local.apiserver.members import is_int64, parse_int64, query_flag
from tfoperator.local.apiserver.registry.deletion import DeleteOptions
from tfoperator.local.apiserver.registry.registry import WriteOptions
from tfoperator.local.apiserver.resource_types import BUILTIN, METRICS, ResourceType
from tfoperator.local.apiserver.storage.store import StoredObject, encode
from tfoperator.servers.http.messages import Answer

MAX_BODY = 3 * 1024 * 1024
"""The maximum number of bytes of a request body, as in kube-apiserver."""

_REVIEW_GROUPS = ("authorization.k8s.io", "authentication.k8s.io")
_OWN_GROUPS = frozenset({*(resource.group for resource in (*BUILTIN, *METRICS)), *_REVIEW_GROUPS})
_MAX_MANAGER_LENGTH = 128  # as in kube-apiserver

_decode_json = msgspec.json.Decoder().decode
_decode_delete_options = msgspec.json.Decoder(DeleteOptions).decode
JSON = "application/json"
_JSON_TYPES = ("", JSON, "application/octet-stream")
_NOT_IN_HEADERS = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")


def object_in(request: ApiRequest) -> dict[str, Any]:
    """Return the object in a request's body. Raises the errors of `decode_object`."""
    return decode_object(request.media_type, request.body)


def too_large_body() -> StatusError:
    """Return a 413: the body is larger than `MAX_BODY`."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY}")


def decode_object(content_type: str, body: bytes) -> dict[str, Any]:
    """Return the object in the body of a POST or PUT.

    Raises StatusError 415 if the content type is not supported or the protobuf is invalid, and 400 if the JSON or YAML
    is invalid or is not an object.
    """
    if content_type == protobuf.MEDIA_TYPE:
        return _decode_protobuf(body)
    if content_type not in (*_JSON_TYPES, *_YAML_TYPES):
        raise unsupported_media_type(("application/json", "application/yaml", protobuf.MEDIA_TYPE))
    try:
        obj = _decode_yaml(body) if content_type in _YAML_TYPES else _decode_json(body)
    except (*UNDECODABLE, YamlError) as error:
        raise bad_request(f"the object provided is unrecognized: couldn't read the body: {error}") from error
    if not isinstance(obj, dict):
        raise bad_request("the object provided is unrecognized: the body has to be one JSON object")
    return obj


def _decode_yaml(body: bytes) -> Any:
    # The decoded value is limited like a JSON body. Kubernetes' parser uses the last of two equal keys.
    return read_value(body, "body", max_bytes=MAX_BODY, unique_keys=False)


def _decode_protobuf(body: bytes) -> dict[str, Any]:
    try:
        return protobuf.decode(body)
    except protobuf.ProtobufError as error:
        raise unsupported_media_type(_JSON_TYPES[1:2], str(error)) from error


def decode_delete_options(content_type: str, body: bytes, query: Mapping[str, str]) -> DeleteOptions:
    """Return the DeleteOptions from the body.

    If the body is empty, take the options from the query. If the body contains no `dryRun`, the query may contain it.
    Raises StatusError 415 if the content type of the body is not supported, and 400 if an option can't be read.
    """
    dry_run = [query["dryRun"]] if "dryRun" in query else None
    if not body.strip():
        grace = query.get("gracePeriodSeconds")
        orphan = query_flag(query, "orphanDependents") if "orphanDependents" in query else None
        try:
            seconds = None if grace is None else parse_int64(grace)
        except ValueError as error:
            raise bad_request(f'gracePeriodSeconds: "{str(grace)[:64]}" is {error}') from None
        return DeleteOptions(
            grace_period_seconds=seconds,
            propagation_policy=query.get("propagationPolicy") or None,
            orphan_dependents=orphan,
            dry_run=dry_run,
        )
    if content_type == protobuf.MEDIA_TYPE:
        body = msgspec.json.encode(_decode_protobuf(body))
    elif content_type not in _JSON_TYPES:
        raise unsupported_media_type(("application/json",))
    try:
        options = _decode_delete_options(body)
    except UNDECODABLE as error:
        raise bad_request(f"couldn't read the DeleteOptions: {error}") from error
    if not is_int64(options.grace_period_seconds or 0):
        raise bad_request("couldn't read the DeleteOptions: gracePeriodSeconds: not a number of 64 bits")
    return msgspec.structs.replace(options, dry_run=options.dry_run or dry_run)


def decode_configuration(body: bytes) -> dict[str, Any]:
    """Return the configuration of a server-side apply (YAML or JSON). Raises StatusError 400 for an invalid body."""
    return decode_object(_YAML_TYPES[0], body)


_OPTIONS_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def write_options(method: str, query: Mapping[str, str], user_agent: str = "") -> WriteOptions:
    """Return the write options in a query. By default, `fieldManager` is the program that the User-Agent names.

    Raises StatusError 422 if an option has an unsupported value, or if `fieldManager` is too long.
    """
    kind = _OPTIONS_KINDS.get(method, "CreateOptions")
    dry_run, validation = query.get("dryRun", ""), query.get("fieldValidation", "")
    if dry_run not in ("", "All"):
        raise invalid_options(kind, not_supported("dryRun", [dry_run], ("All",)))
    if validation not in ("", "Ignore", "Warn", "Strict"):
        raise invalid_options(kind, not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    manager = query.get("fieldManager", "")
    if len(manager) > _MAX_MANAGER_LENGTH:
        message = f"Too long: may not be more than {_MAX_MANAGER_LENGTH} bytes"
        raise invalid_options(kind, FieldProblem("fieldManager", "FieldValueTooLong", message))
    return WriteOptions(
        dry_run=bool(dry_run),
        strict=validation == "Strict",
        silent=validation == "Ignore",
        manager=manager or user_agent.partition("/")[0][:_MAX_MANAGER_LENGTH],
        force=query_flag(query, "force"),
    )


def json_answer(data: bytes, *, status: int = 200, content_type: str = JSON, warnings: Iterable[str] = ()) -> Answer:
    """Return a response with this body.

    Each warning becomes a `Warning` header, which clients such as kubectl print.
    """
    headers = tuple(("Warning", f'299 - "{_quoted(warning)}"') for warning in warnings)
    return Answer(data, HTTPStatus(status), content_type, headers)


def _quoted(text: str) -> str:
    """Return the text in a form that is allowed in a quoted string of an HTTP header.

    The text may contain names from an object, with any character.
    """
    plain = _NOT_IN_HEADERS.sub(" ", text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def status_answer(error: StatusError) -> Answer:
    """Return the response for an error."""
    if isinstance(error, NoSuchPage):
        return Answer(NoSuchPage.TEXT.encode(), HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8")
    headers = tuple((name, value) for name, value in error.headers.items() if name != "Connection")
    return Answer(encode(error.body()), HTTPStatus(error.code), JSON, headers, last=len(headers) < len(error.headers))


def created() -> Answer:
    """Return a 201 for a create on a subresource that stores no object of its own, such as `binding` and `eviction`."""
    return json_answer(encode(_success(code=201)), status=201)


def deleted(resource: ResourceType, stored: StoredObject) -> Answer:
    """Return a 200 for a DELETE. The response names the deleted object, and does not contain it."""
    details = details_of(resource, stored.metadata["name"], uid=stored.metadata["uid"])
    return json_answer(encode(_success(details=details)))


def no_such_path(path: str) -> StatusError:
    """Return a 404 for a path that belongs to no resource.

    Below `/api` and the API groups of Kubernetes, the body is a Status. Otherwise, it is the text `404 page not found`.
    """
    parts = path.strip("/").split("/")
    below = parts[0] == "api" or (parts[0] == "apis" and len(parts) > 2 and parts[1] in _OWN_GROUPS)
    return no_such_resource() if below and len(parts) > 1 else NoSuchPage()


def _success(**more: Any) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", **more}
