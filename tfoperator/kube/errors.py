"""Errors of talking to an API server: one hierarchy, one class per kind of answer that callers tell apart.

`KubeError` is the root. Below it `ConfigError` (no usable configuration or credentials), `TransportError` (no
answer came, or none that can be used) and `ApiError` (the server answered with a status other than 2xx). Every message
reads well to a user and names the object it is about; credentials are never part of one.
"""

from __future__ import annotations

import msgspec

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that it can't decode: not JSON or of other types, not UTF-8, nested too deeply."""


class StatusCause(msgspec.Struct, frozen=True):
    """One reason inside a Status: for a 422 the path of the bad field and what is wrong with it."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The details of a Status."""

    name: str = ""
    kind: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: float = 0


class Status(msgspec.Struct, frozen=True):
    """`meta/v1 Status`: how an API server says what went wrong, in an answer or in a watch's ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class KubeError(Exception):
    """Root of all errors of `tfoperator.kube`."""


class ConfigError(KubeError):
    """There is no usable configuration: missing or broken kubeconfig, unknown context, failed exec plugin."""


class TransportError(KubeError):
    """No complete answer came: reset, time-out, TLS failure. Whether the server acted is unknown."""


class ConnectionRefused(TransportError):
    """Nobody listens at the server's address: the request was certainly not processed."""


class DeadlineExceeded(TransportError):
    """The server was silent, or a stream went on, for longer than was agreed; the connection itself was sound."""


class MalformedResponse(TransportError):
    """What came is not what was asked for: not JSON, of another shape, or larger than the limit."""


class AnswerTooLarge(MalformedResponse):
    """The answer is larger than the client's limit: ask for less at a time."""


class ClientClosed(TransportError):
    """`close()` was called before the answer came; unless it was sent before, the request was not processed."""


class ApiError(KubeError):
    """The server answered, but not with success."""

    def __init__(self, status: Status, context: str = "", retry_after: float | None = None) -> None:
        """`context` says what was asked (`create pods ns/name`); `retry_after` is the server's wish in seconds."""
        self.status = status
        self.context = context
        self.retry_after = retry_after
        message = status.message or status.reason or f"HTTP {status.code}"
        super().__init__(f"{context}: {message}" if context else message)

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code

    @property
    def reason(self) -> str:
        """The machine-readable reason, e.g. `AlreadyExists`; empty if the server gave none."""
        return self.status.reason


class BadRequestError(ApiError):
    """400."""


class UnauthorizedError(ApiError):
    """401: no or bad credentials."""


class ForbiddenError(ApiError):
    """403: RBAC or an admission plugin refuses."""


class NotFoundError(ApiError):
    """404."""


class ConflictError(ApiError):
    """409 on a write with an outdated resourceVersion or a failed precondition."""


class AlreadyExistsError(ConflictError):
    """409 with reason AlreadyExists: a create found the name taken."""


class GoneError(ApiError):
    """410: the resourceVersion or continue token is too old (reasons Expired and Gone)."""


class UnsupportedMediaTypeError(ApiError):
    """415."""


class InvalidError(ApiError):
    """422: the object does not pass validation; `causes` name the fields."""

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The single complaints, each with its field."""
        return self.status.details.causes if self.status.details else ()


class TooManyRequestsError(ApiError):
    """429: slow down; `retry_after` says for how long, when the server gave a time."""


class ServerError(ApiError):
    """5xx: the server failed."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    415: UnsupportedMediaTypeError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def error_from_status(status: Status, context: str = "", retry_after: float | None = None) -> ApiError:
    """The error class that fits a Status, by code and, for 409, by reason."""
    kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    if status.code == 409 and status.reason == "AlreadyExists":
        kind = AlreadyExistsError
    if retry_after is None and status.details is not None and status.details.retry_after_seconds > 0:
        retry_after = status.details.retry_after_seconds
    return kind(status, context, retry_after)


def exceeds_quota(error: KubeError) -> bool:
    """Whether a creation was refused because a ResourceQuota has no room for it; API servers say so in words only."""
    return isinstance(error, ForbiddenError) and "exceeded quota" in error.status.message


def namespace_is_ending(error: KubeError) -> bool:
    """Whether a write failed because its namespace is being deleted or gone: all in it will follow, no retry helps."""
    if not isinstance(error, ApiError) or error.status.details is None:
        return False
    details = error.status.details
    if isinstance(error, ForbiddenError):
        return any(cause.reason == "NamespaceTerminating" for cause in details.causes)
    return isinstance(error, NotFoundError) and details.kind == "namespaces"


def is_expired(error: BaseException) -> bool:
    """Tell whether a version or continue token is too old: 410, or an ERROR event that only gives the reason."""
    return isinstance(error, GoneError) or (isinstance(error, ApiError) and error.reason in ("Expired", "Gone"))


def is_unavailable_version(error: BaseException) -> bool:
    """Tell whether it is expired, or the server does not know it *yet*, or never will (restored from a backup).

    A cause with a reason of its own since Kubernetes 1.18.6; before, a cause with only this message; before 1.17,
    the message of the status itself. All are time-outs (504).
    """
    if is_expired(error) or not isinstance(error, ApiError):
        return is_expired(error)
    causes = error.status.details.causes if error.status.details else ()
    if any(cause.reason == "ResourceVersionTooLarge" for cause in causes):
        return True
    if error.code != 504 and error.reason != "Timeout":
        return False
    message = "Too large resource version"
    return any(cause.message == message for cause in causes) or message in error.status.message


def is_outage(error: BaseException) -> bool:
    """Tell whether the server, or a gateway before it, has failed, which is not to say that it refuses."""
    return isinstance(error, TransportError | ServerError)
