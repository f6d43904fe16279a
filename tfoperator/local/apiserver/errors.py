"""The server's error responses. They have the same `Status` bodies as kube-apiserver's responses.

Clients decide by code and reason (they accept `AlreadyExists`, retry after `Conflict`, relist after `Expired`), and
users read the message. So code, reason and message are the same as kube-apiserver's. Problems of fields have their own
constructors, because a 422 lists each problem as a cause with the path of the field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.local.apiserver.resource_types import ResourceType


class FieldProblem(msgspec.Struct, frozen=True):
    """One invalid field: its path, the machine-readable reason and the message without the path."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def cause(self) -> dict[str, str]:
        """Return this problem as an entry of `details.causes` in a Status."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "..."


def required(field: str, detail: str = "") -> FieldProblem:
    """Return the problem of a missing or empty field."""
    return FieldProblem(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: object, detail: str) -> FieldProblem:
    """Return the problem of a malformed or out-of-range value."""
    return FieldProblem(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def not_supported(field: str, value: object, supported: Sequence[object]) -> FieldProblem:
    """Return the problem for a value that an enumeration does not contain."""
    allowed = ", ".join(_shown(s) for s in supported)
    return FieldProblem(
        field, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {allowed}"
    )


def forbidden(field: str, detail: str) -> FieldProblem:
    """Return the problem for a field that must not be set, or must not be changed."""
    return FieldProblem(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: object) -> FieldProblem:
    """Return the problem for a value that must be unique, but occurs twice."""
    return FieldProblem(field, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


class StatusError(Exception):
    """An error response. Any code in the server may raise it, and the HTTP layer sends it."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Initialize with the HTTP status code, and with the reason and the message of the Status.

        `headers` are added to the response, for example Retry-After. With `details` of None, the Status has no member
        `details`. With {}, the member is an empty object.
        """
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = None if details is None else dict(details)
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """Return the `meta/v1 Status` of this error."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            status["details"] = self.details
        return status


def details_of(resource: ResourceType, name: str, **more: Any) -> dict[str, Any]:
    """Return the `details` of a Status about an object. `more` contains further members. Empty texts are left out."""
    details: dict[str, Any] = {"name": name, "group": resource.group, "kind": resource.plural, **more}
    return {member: value for member, value in details.items() if value != ""}


def not_found(resource: ResourceType, name: str) -> StatusError:
    """Return a 404 for an object that does not exist."""
    return StatusError(404, "NotFound", f'{resource.qualified} "{name}" not found', details=details_of(resource, name))


def already_exists(resource: ResourceType, name: str) -> StatusError:
    """Return a 409: a create uses a name that already exists."""
    return StatusError(
        409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', details=details_of(resource, name)
    )


def conflict(resource: ResourceType, name: str, why: str = "") -> StatusError:
    """Return a 409 for an outdated resourceVersion, or for a failed precondition that `why` describes."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=details_of(resource, name))


def invalid(resource: ResourceType, name: str, problems: Iterable[FieldProblem]) -> StatusError:
    """Return a 422 with one cause per problem."""
    all_problems = list(problems)
    text = str(all_problems[0]) if len(all_problems) == 1 else "[" + ", ".join(str(p) for p in all_problems) + "]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = details_of(resource, name, kind=resource.kind, causes=[problem.cause() for problem in all_problems])
    return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details=details)


def invalid_options(kind: str, *problems: FieldProblem) -> StatusError:
    """Return a 422 for invalid options of a request. `kind` is, for example, CreateOptions or ListOptions."""
    return invalid(_meta(kind), "", problems)


def without_version(resource: ResourceType, name: str) -> StatusError:
    """Return a 422 for an update without `metadata.resourceVersion`, for a kind that requires it, such as Lease."""
    problem = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    # kube-apiserver's message contains the plural here (`leases`), and the kind (`Lease`) for all other problems.
    return invalid(msgspec.structs.replace(resource, kind=resource.plural), name, [problem])


def unprocessable(message: str) -> StatusError:
    """Return a 422 that names no field, for example for a JSON patch that can't be applied."""
    return StatusError(422, "Invalid", message, details={})


def bad_request(message: str) -> StatusError:
    """Return a 400, with this message for the user."""
    return StatusError(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    """Return a 410: the client's resourceVersion or continue token is older than the server's history."""
    return StatusError(410, "Expired", message)


def no_such_resource() -> StatusError:
    """Return a 404 for an API path whose resource or subresource does not exist."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


class NoSuchPage(StatusError):
    """A 404 for a path outside of the API's groups. The body of the response is text, not a Status."""

    TEXT = "404 page not found\n"

    def __init__(self) -> None:
        """Initialize without arguments, because all these responses are equal."""
        super().__init__(404, "NotFound", self.TEXT)


def method_not_allowed() -> StatusError:
    """Return a 405: the path does not support the HTTP method."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def verb_not_supported(resource: ResourceType, verb: str) -> StatusError:
    """Return a 405 for a verb that a path of a custom resource does not support, such as `create` at `tfjobs/NAME`."""
    message = f'{verb} is not supported on resources of kind "{resource.qualified}"'
    return StatusError(405, "MethodNotAllowed", message, details=details_of(resource, ""))


def unsupported_media_type(accepted: Sequence[str], detail: str = "") -> StatusError:
    """Return a 415: the content type of the body is not supported."""
    listed = ", ".join(accepted) + (f" ({detail})" if detail else "")
    return StatusError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {listed}",
    )


def not_acceptable() -> StatusError:
    """Return a 406: the server supports none of the media types that the client accepts."""
    message = "only the following media types are accepted: application/json, application/json;stream=watch"
    return StatusError(406, "NotAcceptable", message)


def _meta(kind: str) -> ResourceType:
    return ResourceType("meta.k8s.io", "v1", kind, kind)
