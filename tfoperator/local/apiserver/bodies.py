"""Reading request bodies: JSON (or YAML) objects, patches and delete options, with errors a user can act on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from tfoperator.kube.errors import UNDECODABLE
from tfoperator.local.apiserver import protobuf
from tfoperator.local.apiserver.deletion import DeleteOptions
from tfoperator.local.apiserver.errors import StatusError, bad_request, unsupported_media_type
from tfoperator.local.apiserver.registry import WriteOptions

__all__ = ["MAX_BODY", "decode_delete_options", "decode_object", "too_large_body", "write_options"]

MAX_BODY = 3 * 1024 * 1024
"""Bytes of a request body, kube-apiserver's own limit."""

_decode_json = msgspec.json.Decoder().decode
_decode_delete_options = msgspec.json.Decoder(DeleteOptions).decode
_JSON = ("", "application/json", "application/octet-stream")
_YAML = ("application/yaml", "application/x-yaml", "text/yaml")


def too_large_body() -> StatusError:
    """413."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY}")


def decode_object(content_type: str, body: bytes) -> dict[str, Any]:
    """The object in a POST or PUT; StatusError 400 or 415."""
    if content_type == protobuf.MEDIA_TYPE:
        return _decode_protobuf(body)
    if content_type not in (*_JSON, *_YAML):
        raise unsupported_media_type(("application/json", "application/yaml"))
    try:
        obj = yaml.safe_load(body) if content_type in _YAML else _decode_json(body)
    except (*UNDECODABLE, yaml.YAMLError) as error:
        raise bad_request(f"the object provided is unrecognized: couldn't read the body: {error}") from error
    if not isinstance(obj, dict):
        raise bad_request("the object provided is unrecognized: the body has to be one JSON object")
    return obj


def _decode_protobuf(body: bytes) -> dict[str, Any]:
    try:
        return protobuf.decode(body)
    except protobuf.ProtobufError as error:
        raise unsupported_media_type(_JSON[1:2], str(error)) from error


def decode_delete_options(content_type: str, body: bytes, query: Mapping[str, str]) -> DeleteOptions:
    """DeleteOptions from the body or, if it is empty, from the query; `dryRun` counts in both."""
    dry_run = ["All"] if "dryRun" in query else None
    if not body.strip():
        grace = query.get("gracePeriodSeconds")
        orphan = query.get("orphanDependents")
        if grace is not None and not re.fullmatch("-?[0-9]+", grace):
            raise bad_request(f'gracePeriodSeconds: "{grace}" is not a number')
        return DeleteOptions(
            grace_period_seconds=int(grace) if grace is not None else None,
            propagation_policy=query.get("propagationPolicy") or None,
            orphan_dependents=orphan == "true" if orphan is not None else None,
            dry_run=dry_run,
        )
    if content_type == protobuf.MEDIA_TYPE:
        body = msgspec.json.encode(_decode_protobuf(body))
    elif content_type not in _JSON:
        raise unsupported_media_type(("application/json",))
    try:
        options = _decode_delete_options(body)
    except UNDECODABLE as error:
        raise bad_request(f"couldn't read the DeleteOptions: {error}") from error
    return msgspec.structs.replace(options, dry_run=options.dry_run or dry_run)


def write_options(query: Mapping[str, str]) -> WriteOptions:
    """`dryRun` and `fieldValidation` of a write."""
    dry_run, validation = query.get("dryRun", ""), query.get("fieldValidation", "")
    if dry_run not in ("", "All"):
        raise bad_request(f'dryRun: Unsupported value: "{dry_run}": supported values: "All"')
    if validation not in ("", "Ignore", "Warn", "Strict"):
        raise bad_request(
            f'fieldValidation: Unsupported value: "{validation}": supported values: "Ignore", "Warn", "Strict"'
        )
    return WriteOptions(dry_run=bool(dry_run), strict=validation == "Strict", silent=validation == "Ignore")
