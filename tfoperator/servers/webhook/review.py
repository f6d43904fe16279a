"""Answers a ConversionReview (apiextensions.k8s.io/v1). The input and the output are bytes. The module does no I/O.

An API server sends objects of one kind. It expects the objects in another version, in the same order. It uses the
labels and annotations in the response, and keeps all other metadata unchanged. An error in one object makes the whole
review fail. The error message reaches the client of the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tfoperator.api.conversion import ConversionError, checked_v1alpha2_to_v1, v1_to_v1alpha2
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.http.nesting import LEVELS, cut_off, reaches
from tfoperator.kube.protocol.errors import UNDECODABLE

_API_VERSION = "apiextensions.k8s.io/v1"
_KIND = "ConversionReview"
_V1ALPHA2 = f"{TFJOBS.group}/v1alpha2"

_Object = dict[str, Any]

_CONVERSIONS: Mapping[tuple[str, str], Callable[[_Object], _Object]] = {
    (TFJOBS.api_version, _V1ALPHA2): lambda obj: v1_to_v1alpha2(obj).obj,
    (_V1ALPHA2, TFJOBS.api_version): checked_v1alpha2_to_v1,
}


_VERSIONS = frozenset({TFJOBS.api_version, _V1ALPHA2})

_KNOWN_VERSIONS = "the versions are v1 and v1alpha2"

_MAX_SHOWN_NAME = 100
"""Characters. The maximum characters of a name in a message. Names have up to 253 characters, but the message only has
to identify the object.
"""

_LEVELS_ABOVE = 3
"""The number of JSON levels above each object: the review, its request and the list."""

_MAX_EXPLAINED = 2 << 20
"""The maximum size in bytes of a review in which parts that are nested too deeply are searched for. The search takes up
to half a second. Objects that an API server has stored are never larger.
"""

_MAX_SHOWN_PROBLEM = 300
"""The maximum characters of a conversion error. It contains the annotation, the field in it (which may be a key that a
user wrote) and the reason.
"""


class MalformedReview(ValueError):
    """The request is not a valid ConversionReview. The message contains the reason."""


class Reviewed(msgspec.Struct, frozen=True):
    """The result of a review.

    It has the answer as JSON, the number of converted objects, their version, and the failure, if any. If there
    is no failure, the version is a served version. It is never a text from a client.
    """

    body: bytes
    version: str
    objects: int
    failure: str = ""


class _Request(msgspec.Struct):
    uid: str
    desired_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[_Object]


class _Review(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion")
    kind: str
    request: _Request


class _Unconvertible(Exception):
    """An object can't be converted. The message names the object."""


_decode = msgspec.json.Decoder(_Review).decode
_encode = msgspec.json.Encoder().encode


def answer(body: bytes) -> Reviewed:
    """Return the answer to a review. If a conversion fails, the answer contains the failure. Raises MalformedReview."""
    try:
        return _answered(_decoded(body))
    except RecursionError:
        pass
    if len(body) > _MAX_EXPLAINED:
        raise MalformedReview("an object is nested too deeply, and the review is too long to find its name")
    try:
        return _too_deep(_decoded(cut_off(body)).request)
    except RecursionError:
        raise MalformedReview(
            f"this is not a {_KIND} of {_API_VERSION}: it is nested too deeply, or incomplete"
        ) from None


def _decoded(body: bytes) -> _Review:
    """Decode the body.

    Raises MalformedReview. Raises RecursionError if the body is nested more deeply than Python supports.
    """
    try:
        return _decode(body)
    except RecursionError:
        raise
    except UNDECODABLE as error:
        raise MalformedReview(f"this is not a {_KIND} of {_API_VERSION}: {_shown(str(error))}") from None


def _answered(review: _Review) -> Reviewed:
    if (review.api_version, review.kind) != (_API_VERSION, _KIND):
        raise MalformedReview(
            f"must be a {_KIND} of {_API_VERSION}, but is a {_shown(review.kind)} of {_shown(review.api_version)}"
        )
    request = review.request
    try:
        if request.desired_version not in _VERSIONS:
            raise _Unconvertible(
                f"{_shown(request.desired_version)} is not a version to which TFJobs can be converted: "
                f"{_KNOWN_VERSIONS}"
            )
        converted = [_convert(obj, request.desired_version) for obj in request.objects]
        return _reviewed(request, {"convertedObjects": converted, "result": {"status": "Success"}}, len(converted))
    except _Unconvertible as error:
        return _failed(request, str(error))


def _too_deep(request: _Request) -> Reviewed:
    """Return a refusal for a review whose deepest parts were cut off: a conversion would lose these parts."""
    named = [_named(obj) for obj in request.objects if reaches(obj, LEVELS - _LEVELS_ABOVE)] or ["an object"]
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    return _failed(request, f"{named[0]}{more}: nested too deeply to be converted")


def _failed(request: _Request, failure: str) -> Reviewed:
    result = {"status": "Failure", "message": failure}
    return _reviewed(request, {"convertedObjects": [], "result": result}, 0, failure)


def _reviewed(request: _Request, response: _Object, objects: int, failure: str = "") -> Reviewed:
    body = _encode({"apiVersion": _API_VERSION, "kind": _KIND, "response": {"uid": request.uid, **response}})
    return Reviewed(body, request.desired_version, objects, failure)


def _convert(obj: _Object, desired: str) -> _Object:
    version = obj.get("apiVersion")
    if obj.get("kind") != TFJOBS.kind:
        raise _Unconvertible(f"{_named(obj)}: only {TFJOBS.kind}s can be converted here")
    if version == desired:
        return obj
    conversion = _CONVERSIONS.get((version, desired)) if isinstance(version, str) else None
    if conversion is None:
        raise _Unconvertible(f"{_named(obj)} can't be converted to {desired}: {_KNOWN_VERSIONS}")
    try:
        return conversion(obj)
    except ConversionError as error:
        raise _Unconvertible(f"{_named(obj)}: {_shown(str(error), _MAX_SHOWN_PROBLEM)}") from None


def _named(obj: _Object) -> str:
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{_shown(obj.get('apiVersion'))} {_shown(obj.get('kind'))} {_shown(name or '(unnamed)')}"


def _shown(value: Any, limit: int = _MAX_SHOWN_NAME) -> str:
    """Return a part of a client's text for messages and logs. It is on one line and has a limited length."""
    text = str(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    text = text if len(text) <= limit else f"{text[:limit]}..."
    return text if text.isprintable() else ascii(text)
