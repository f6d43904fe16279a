"""PATCH: JSON patch, merge patch and (for built-in kinds) strategic merge patch, each as a pure function.

Every function takes an object of one's own and returns the patched one; the caller validates the result like any
other update. A patch that can't be read is a 400; a JSON patch that doesn't apply is a 422.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonpatch
import msgspec

from tfoperator.kube.errors import UNDECODABLE
from tfoperator.kube.strategic_merge import StrategicMergeError
from tfoperator.kube.strategic_merge import strategic_merge as merge_strategically
from tfoperator.local.apiserver.errors import bad_request, unprocessable, unsupported_media_type
from tfoperator.local.apiserver.kinds import ResourceType

__all__ = ["Patcher", "json_patch", "merge_patch", "patcher", "strategic_merge"]

_Dict = dict[str, Any]
Patcher = Callable[[_Dict], _Dict]
"""Turns an object of one's own into the patched one."""

_JSON = "application/json-patch+json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


def patcher(resource: ResourceType, content_type: str, body: bytes) -> Patcher:
    """Read a PATCH request: returns what turns the current object into the wished-for one.

    StatusError 415 for a content type that isn't served for this resource; server-side apply is one of them.
    """
    accepted = (_JSON, _MERGE) if resource.custom else (_JSON, _MERGE, _STRATEGIC)
    if content_type not in accepted:
        raise unsupported_media_type(accepted)
    try:
        patch = msgspec.json.decode(body)
    except UNDECODABLE as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if content_type == _JSON:
        if not isinstance(patch, list):
            raise bad_request("error decoding patch: a JSON patch is a list of operations")
        return lambda obj: json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch is an object")
    if content_type == _MERGE:
        return lambda obj: merge_patch(obj, patch)
    return lambda obj: strategic_merge(obj, patch, resource.kind)


def json_patch(obj: _Dict, operations: list[Any]) -> _Dict:
    """RFC 6902."""
    try:
        result = jsonpatch.JsonPatch(operations).apply(obj, in_place=True)
    except jsonpatch.InvalidJsonPatch as error:
        raise bad_request(f"error decoding patch: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError) as error:
        # TypeError: the library's answer to a path that leads through a string or a number.
        raise unprocessable(f"the server rejected our request due to an error in our request: {error}") from error
    if not isinstance(result, dict):
        raise unprocessable("the server rejected our request: the patched object is not an object")
    return result


def merge_patch(obj: object, patch: Any) -> Any:
    """RFC 7386: members replace members, null removes, objects are merged, everything else replaces as a whole."""
    if not isinstance(patch, dict):
        return patch
    merged = obj if isinstance(obj, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def strategic_merge(obj: _Dict, patch: _Dict, kind: str) -> _Dict:
    """What kubectl sends for built-in kinds; see `tfoperator.kube.strategic_merge`. StatusError 400 if malformed."""
    try:
        return merge_strategically(obj, patch, kind)
    except StrategicMergeError as error:
        raise bad_request(f"error decoding patch: {error}") from error
