"""Processes a ConversionReview (apiextensions.k8s.io/v1). The input and the output are bytes. The module does no I/O.

An API server sends TFJobs. It expects the same TFJobs in another version, in the same order. Of the metadata in the
response, the API server uses only the labels and annotations. If a TFJob can't be converted, the whole review fails,
and the API server shows the message to its client.
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
"""The maximum number of characters of a name in a message. A name has up to 253 characters, but its beginning normally
identifies the object.
"""

_LEVELS_ABOVE = 3
"""The number of JSON levels above each object: the review, its request and the list."""

_MAX_EXPLAINED = 2 << 20
"""The maximum size in bytes of a review in which the module looks for the name of an object that is nested too deeply.
This search takes up to half a second. A review with an object that an API server has stored is never larger.
"""

_MAX_SHOWN_PROBLEM = 300
"""The maximum number of characters of a conversion error in a message. The error contains names of annotations and
fields, which users have written.
"""


class MalformedReview(ValueError):
    """The request is not a valid ConversionReview. The message contains the reason."""


class Reviewed(msgspec.Struct, frozen=True):
    """The result of a review: the response as JSON, and data for metrics and logs.

    `objects` is the number of converted objects. `failure` is "" after a success. Then `version` is one of the versions
    of TFJob; after a failure it may be any text from the request.
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
    """Return the response to a ConversionReview. If a conversion fails, the response contains the failure.

    Raises MalformedReview if the body is not a ConversionReview.
    """
    try:
        return _answered(_decoded(body))
    except RecursionError:
        pass
    if len(body) > _MAX_EXPLAINED:
        raise MalformedReview(
            "an object is nested too deeply; the review is too long to search it for the object's name"
        )
    try:
        return _too_deep(_decoded(cut_off(body)).request)
    except RecursionError:
        raise MalformedReview(
            f"this is not a {_KIND} of {_API_VERSION}: it is nested too deeply, or incomplete"
        ) from None


def _decoded(body: bytes) -> _Review:
    """Decode the body.

    Raises MalformedReview if the body is not a ConversionReview. Raises RecursionError if the body is nested more
    deeply than Python supports.
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
    """Return a failed review that names the objects that are nested too deeply.

    The deepest parts of the request were cut off, so these objects can't be converted without a loss.
    """
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
    """Return a client's value for a message or a log line: on a single line, cut after `limit` characters."""
    text = str(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
    text = text if len(text) <= limit else f"{text[:limit]}..."
    return text if text.isprintable() else ascii(text)
