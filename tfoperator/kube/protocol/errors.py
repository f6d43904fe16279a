"""Errors of requests to an API server: one hierarchy, one class per kind of response that callers distinguish.

`KubeError` is the root. Below it `ConfigError` (no usable configuration or credentials), `TransportError` (no
complete or usable response) and `ApiError` (the server answered with a status other than 2xx). Every message
is fit for users and names its object, but never contains credentials.
"""

from __future__ import annotations

import msgspec

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors that msgspec raises for undecodable bytes: not JSON, wrong types, not UTF-8, nested too deeply."""


class StatusCause(msgspec.Struct, frozen=True):
    """One reason inside a Status: for a 422 the path of the invalid field and the error."""

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
    """`meta/v1 Status`: an API server's description of an error, in a response or in a watch's ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class KubeError(Exception):
    """Root of all errors of `tfoperator.kube`."""


class ConfigError(KubeError):
    """There is no usable configuration: missing or broken kubeconfig, unknown context, failed exec plugin."""


class NoClusterConfigured(ConfigError):
    """The configuration names no cluster, and the process does not run in a pod."""


class TransportError(KubeError):
    """There was no complete response: reset, time-out, TLS failure. Whether the server acted is unknown."""


class ConnectionRefused(TransportError):
    """No process listens at the server's address: the request was certainly not processed."""


class DeadlineExceeded(TransportError):
    """The server sent nothing, or a stream lasted, for longer than its limit; the connection itself did not fail."""


class SilentWatch(DeadlineExceeded):
    """A watch brought neither an event nor a bookmark for as long as it may be silent.

    Either nothing has happened, and etcd reports no progress (its default), or the connection is dead without a sign.
    The watch goes on from the version that it has reached, so it misses no change.
    """


class MalformedResponse(TransportError):
    """The response is not of the requested form: not JSON, of another shape, or larger than the limit."""


class AnswerTooLarge(MalformedResponse):
    """The response exceeds the client's limit: request less at a time."""


class ObjectTooLarge(AnswerTooLarge):
    """A list of one object exceeds the client's limit: a smaller request is impossible."""


class ClientClosed(TransportError):
    """`close()` was called before the response; a request that was not sent yet was not processed."""


class ApiError(KubeError):
    """The server answered, but not with success."""

    def __init__(self, status: Status, context: str = "", retry_after: float | None = None) -> None:
        """`context` names the request (`create pods ns/name`); `retry_after` is the server's wait in seconds."""
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

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The causes; a 422 has a cause for each invalid field."""
        return self.status.details.causes if self.status.details else ()


class BadRequestError(ApiError):
    """400."""


class UnauthorizedError(ApiError):
    """401: no or bad credentials."""


class ForbiddenError(ApiError):
    """403: RBAC or an admission plugin refuses."""


class NotFoundError(ApiError):
    """404."""


class MethodNotAllowedError(ApiError):
    """405: the resource can't be used in this way; some servers show objects that can only be read."""


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


class TooManyRequestsError(ApiError):
    """429: too many requests; `retry_after` is the wait that the server asks for, if any."""


class ServerError(ApiError):
    """5xx: the server failed."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: MethodNotAllowedError,
    409: ConflictError,
    410: GoneError,
    415: UnsupportedMediaTypeError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def error_from_status(status: Status, context: str = "", retry_after: float | None = None) -> ApiError:
    """Return the error class that fits a Status, by code and, for 409, by reason."""
    kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    if status.code == 409 and status.reason == "AlreadyExists":
        kind = AlreadyExistsError
    if retry_after is None and status.details is not None and status.details.retry_after_seconds > 0:
        retry_after = status.details.retry_after_seconds
    return kind(status, context, retry_after)


def exceeds_quota(error: KubeError) -> bool:
    """Return whether a ResourceQuota refused a creation; in API servers' errors, only the message shows that."""
    return isinstance(error, ForbiddenError) and "exceeded quota" in error.status.message


def namespace_is_ending(error: KubeError) -> bool:
    """Return whether a write failed because its namespace is being deleted or gone: no retry helps."""
    if not isinstance(error, ApiError) or error.status.details is None:
        return False
    details = error.status.details
    if isinstance(error, ForbiddenError):
        return any(cause.reason == "NamespaceTerminating" for cause in error.causes)
    return isinstance(error, NotFoundError) and details.kind == "namespaces"


def is_expired(error: BaseException) -> bool:
    """Return whether a version or continue token is too old: a 410, or an ERROR event that has only the reason."""
    return isinstance(error, GoneError) or (isinstance(error, ApiError) and error.reason in ("Expired", "Gone"))


def is_unavailable_version(error: BaseException) -> bool:
    """Return whether a version is expired, or unknown to the server: not known yet, or never (restored from a backup).

    The latter is a cause with a specific reason since Kubernetes 1.18.6, before that a cause with only this message,
    and before 1.17 the message of the status itself. All are time-outs (504).
    """
    if is_expired(error) or not isinstance(error, ApiError):
        return is_expired(error)
    if any(cause.reason == "ResourceVersionTooLarge" for cause in error.causes):
        return True
    if error.code != 504 and error.reason != "Timeout":
        return False
    message = "Too large resource version"
    return any(cause.message == message for cause in error.causes) or message in error.status.message


def is_outage(error: BaseException) -> bool:
    """Return whether the server, or a gateway in front of it, failed, as opposed to refusing the request."""
    return isinstance(error, TransportError | ServerError)
