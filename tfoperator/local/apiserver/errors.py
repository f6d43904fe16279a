"""What the server answers when it refuses: the same `Status` bodies that kube-apiserver sends.

Clients decide by code and reason (`AlreadyExists` is fine, `Conflict` is retried, `Expired` relists) and people read
the message, so both follow kube-apiserver's wording. Field problems have constructors of their own because a 422
lists each as a cause with the path of the field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.local.apiserver.resource_types import ResourceType


class FieldProblem(msgspec.Struct, frozen=True):
    """One field that does not pass: its path, the machine-readable reason and the message without the path."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def cause(self) -> dict[str, str]:
        """As a Status lists it."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "..."


def required(field: str, detail: str = "") -> FieldProblem:
    """The field is missing or empty."""
    return FieldProblem(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: object, detail: str) -> FieldProblem:
    """The field's value is malformed or out of range."""
    return FieldProblem(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def not_supported(field: str, value: object, supported: Sequence[object]) -> FieldProblem:
    """The value is none of an enumeration."""
    allowed = ", ".join(_shown(s) for s in supported)
    return FieldProblem(
        field, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {allowed}"
    )


def forbidden(field: str, detail: str) -> FieldProblem:
    """The field may not be set, or not be changed, here."""
    return FieldProblem(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: object) -> FieldProblem:
    """A value that has to be unique appears twice."""
    return FieldProblem(field, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


class StatusError(Exception):
    """A refusal, raised anywhere in the server and turned into an HTTP answer at its edge."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`headers` go into the HTTP answer, e.g. Retry-After."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The `meta/v1 Status` that says it."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            status["details"] = self.details
        return status


def details_of(resource: ResourceType, name: str, **more: Any) -> dict[str, Any]:
    """A Status' `details` about an object."""
    details: dict[str, Any] = {"name": name, "kind": resource.plural, **more}
    if resource.group:
        details["group"] = resource.group
    return details


def not_found(resource: ResourceType, name: str) -> StatusError:
    """404 for an object."""
    return StatusError(404, "NotFound", f'{resource.qualified} "{name}" not found', details=details_of(resource, name))


def already_exists(resource: ResourceType, name: str) -> StatusError:
    """409: a create found the name taken."""
    return StatusError(
        409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', details=details_of(resource, name)
    )


def conflict(resource: ResourceType, name: str, why: str = "") -> StatusError:
    """409: an outdated resourceVersion (the default wording) or a failed precondition."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=details_of(resource, name))


def invalid(resource: ResourceType, name: str, problems: Iterable[FieldProblem]) -> StatusError:
    """422 with one cause per problem."""
    found = list(problems)
    text = str(found[0]) if len(found) == 1 else "[" + ", ".join(str(p) for p in found) + "]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = details_of(resource, name, kind=resource.kind, causes=[problem.cause() for problem in found])
    return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details=details)


def unprocessable(message: str) -> StatusError:
    """422 without a field, as for a JSON patch that does not apply."""
    return StatusError(422, "Invalid", message)


def bad_request(message: str) -> StatusError:
    """400."""
    return StatusError(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    """410: the resourceVersion or the continue token is older than what the server remembers."""
    return StatusError(410, "Expired", message)


def method_not_allowed(what: str) -> StatusError:
    """405."""
    return StatusError(405, "MethodNotAllowed", f"{what} is not supported on resources of this kind")


def unsupported_media_type(accepted: Sequence[str], detail: str = "") -> StatusError:
    """415: the body's content type is unknown here."""
    listed = ", ".join(accepted) + (f" ({detail})" if detail else "")
    return StatusError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {listed}",
    )
