"""PATCH: JSON patch, merge patch, (for built-in kinds) strategic merge patch, and server-side apply.

The functions of the first three kinds of patch are pure: each takes a private copy of an object and returns the patched
object. The caller validates the result like any other update.

Server-side apply (`apply_configuration`) is also a PATCH request: its body contains the wanted fields of an object, and
these fields then belong to the writer.

If a patch can't be read, the response is 400. If a JSON patch can't be applied, the response is 422. JSON patches have
the same limits as in kube-apiserver, because each copy operation can double the size of the object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonpatch
import msgspec

from tfoperator.kube import apply_merge_patch
from tfoperator.kube.patches.strategic_merge import StrategicMergeError
from tfoperator.kube.patches.strategic_merge import strategic_merge as merge_strategically
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.local.apiserver import errors
from tfoperator.local.apiserver.errors import StatusError, bad_request, unprocessable, unsupported_media_type
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.objects.field_managers import Owner, apply
from tfoperator.local.apiserver.objects.json_types import check_types
from tfoperator.local.apiserver.objects.metadata import check_identity
from tfoperator.local.apiserver.registry.registry import Registry, WriteOptions, WriteResult
from tfoperator.local.apiserver.resource_types import ResourceType

Patcher = Callable[[Json], Json]
"""Patches a private copy of an object, and returns it."""

APPLY = "application/apply-patch+yaml"
"""The content type of server-side apply. `apply_configuration` handles it, and not `patcher`."""

_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"


_MAX_OPERATIONS = 10_000
"""The maximum number of operations in one JSON patch, as in kube-apiserver."""

_MAX_COPIED = 3 << 20
"""The maximum number of bytes (as JSON) that all `copy` operations of one JSON patch may copy, as in kube-apiserver."""


def patcher(resource: ResourceType, content_type: str, body: bytes) -> Patcher:
    """Read a PATCH request. Return the function that applies the patch to the current object.

    Raises StatusError 415 for a content type that this resource does not support.
    """
    accepted = (_JSON_PATCH, _MERGE_PATCH) if resource.custom else (_JSON_PATCH, _MERGE_PATCH, _STRATEGIC_PATCH)
    if content_type not in accepted:
        refusal = unsupported_media_type((*accepted, APPLY))
        if not resource.custom:
            refusal.details = {}  # as in kube-apiserver, which checks the content type before it knows the resource
        raise refusal
    try:
        patch = msgspec.json.decode(body)
    except UNDECODABLE as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if content_type == _JSON_PATCH:
        if not isinstance(patch, list):
            raise bad_request("error decoding patch: a JSON patch is a list of operations")
        return lambda obj: json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch is an object")
    if content_type == _MERGE_PATCH:
        return lambda obj: apply_merge_patch(obj, patch)
    return lambda obj: strategic_merge(obj, patch, resource.kind)


def json_patch(obj: Json, operations: list[Any]) -> Json:
    """Apply a JSON patch (RFC 6902).

    Raises StatusError 400 for an operation that is not an object, and 413 for too many operations. Raises 422 for an
    operation that can't be applied, or if the copies together are too large.
    """
    if not all(isinstance(operation, dict) for operation in operations):
        raise bad_request("error decoding patch: each operation of a JSON patch is an object")
    if len(operations) > _MAX_OPERATIONS:
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            f"Request entity is too large: The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, "
            f"got {len(operations)}",
        )
    result: Any = obj
    copied = 0
    try:
        jsonpatch.JsonPatch(operations)  # parse all operations before the first is applied
        for operation in operations:
            if operation["op"] == "copy" and isinstance(source := operation.get("from"), str):
                copied += len(msgspec.json.encode(jsonpatch.JsonPointer(source).resolve(result)))
                if copied > _MAX_COPIED:
                    raise unprocessable(
                        "the server rejected our request due to an error in our request: Unable to complete the copy, "
                        f"the accumulated size increase of copy is {copied}, exceeding the limit {_MAX_COPIED}"
                    )
            result = jsonpatch.JsonPatch([operation]).apply(result, in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, RecursionError) as error:
        # TypeError: the library's error for a path through a string or a number. RecursionError: the operations have
        # nested values too deeply to be copied.
        raise unprocessable(f"the server rejected our request due to an error in our request: {error}") from error
    if not isinstance(result, dict):
        raise unprocessable("the server rejected our request: the patched object is not an object")
    return result


def strategic_merge(obj: Json, patch: Json, kind: str) -> Json:
    """Apply a strategic merge patch, as `tfoperator.kube.patches` describes it.

    Raises StatusError 400 if the patch is malformed.
    """
    try:
        return merge_strategically(obj, patch, kind)
    except StrategicMergeError as error:
        raise bad_request(f"error decoding patch: {error}") from error


def apply_configuration(
    registry: Registry, resource: ResourceType, namespace: str, name: str, wanted: Json, options: WriteOptions
) -> tuple[WriteResult, bool]:
    """Apply the configuration `wanted` to an object (server-side apply), or create the object.

    Return the object as it was written, and whether it is new. Raises StatusError 409 if fields of other owners would
    change, unless `options.force` is set. Raises StatusError 422 if `options.manager` is not set. Also raises the
    errors of a create or an update.
    """
    if not options.manager:
        raise errors.invalid_options("PatchOptions", errors.required("fieldManager", "is required for apply patch"))
    check_types(resource, wanted)
    if (wanted.get("metadata") or {}).get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    check_identity(resource, namespace, name, wanted)
    if "status" in resource.subresources:
        wanted.pop("status", None)  # the main endpoint ignores the status
    owner, layout = Owner(options.manager, "Apply"), registry.layout(resource)
    stored = registry.find(resource, namespace, name)
    if stored is None:
        if wanted["metadata"].get("uid") or wanted["metadata"].get("resourceVersion"):
            raise errors.conflict(resource, name, "the object that is to be changed does not exist")
        applied = apply(resource, None, wanted, owner, layout, force=options.force)
        return registry.create(resource, namespace, applied.obj, options, owned=applied.owned), True
    applied = apply(resource, stored.obj, wanted, owner, layout, force=options.force)
    new, owned = applied.obj, applied.owned
    return registry.update(resource, namespace, name, lambda _: new, options, patch=True, owned=owned), False
