"""Answers: JSON with its headers, and what kube-apiserver says instead of an object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiohttp import web

from tfoperator.local.apiserver.errors import StatusError, details_of
from tfoperator.local.apiserver.resource_types import ResourceType
from tfoperator.local.apiserver.storage import StoredObject, encode

JSON = "application/json"


def json_answer(
    data: bytes, *, status: int = 200, content_type: str = JSON, warnings: Iterable[str] = ()
) -> web.Response:
    """An answer with this body. Each warning becomes a header that clients print."""
    response = web.Response(body=data, status=status, headers={"Content-Type": content_type})
    for warning in warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def status_answer(error: StatusError) -> web.Response:
    """A refusal."""
    response = json_answer(encode(error.body()), status=error.code)
    response.headers.update(error.headers)
    if error.headers.get("Connection") == "close":
        response.force_close()
    return response


def created() -> web.Response:
    """201 for a subresource whose creation leaves no object of its own."""
    return json_answer(encode(_success(code=201)), status=201)


def deleted(resource: ResourceType, stored: StoredObject) -> web.Response:
    """200 for a DELETE that names what is gone instead of showing it."""
    details = details_of(resource, stored.metadata["name"], uid=stored.metadata["uid"])
    return json_answer(encode(_success(details=details)))


def no_such_path() -> StatusError:
    """404 for a path that leads to no resource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def _success(**more: Any) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", **more}
