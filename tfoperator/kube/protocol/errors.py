"""Errors of requests to an API server.

The errors form one hierarchy, with one class for each kind of response that callers distinguish. `KubeError` is the
root. Its subclasses are `ConfigError` (no usable configuration or credentials), `TransportError` (no complete or usable
response) and `ApiError` (the server responded with a status other than 2xx). Every message is written for users and
names the object, but never contains credentials.
"""

from __future__ import annotations

import msgspec

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors that msgspec raises for bytes that it can't decode: not JSON, wrong types, not UTF-8, nested
too deeply.
"""


class StatusCause(msgspec.Struct, frozen=True):
    """One cause inside a Status. For a 422 it contains the path of the invalid field, and the error."""

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
    """The base class of all errors of `tfoperator.kube`."""


class ConfigError(KubeError):
    """There is no usable configuration: missing or broken kubeconfig, unknown context, failed exec plugin."""


class NoClusterConfigured(ConfigError):
    """The configuration names no cluster, and the process does not run in a pod."""


class TransportError(KubeError):
    """The response is missing or incomplete: the connection was reset, timed out, or TLS failed.

    Except for `ConnectionRefused`, it is unknown whether the server acted.
    """


class ConnectionRefused(TransportError):
    """No process listens at the server's address. So the server has certainly not processed the request."""


class DeadlineExceeded(TransportError):
    """The server sent no byte for longer than the client's limit, or a stream lasted longer than the client's limit.

    The client noticed no break of the connection.
    """


class SilentWatch(DeadlineExceeded):
    """A watch received neither an event nor a bookmark for longer than the client's limit (by default 90 s).

    Either no object has changed, and etcd does not report its progress to the API server (the default of etcd), or the
    connection has broken without a TCP reset. The next watch continues from the last version that the client has
    received, so the client misses no change.
    """


class MalformedResponse(TransportError):
    """The response does not have the requested format.

    For example, it is not JSON, has another shape, or is larger than the limit.
    """


class AnswerTooLarge(MalformedResponse):
    """The response exceeds the client's limit. Request less data at a time."""


class ObjectTooLarge(AnswerTooLarge):
    """A list of a single object exceeds the client's limit. A smaller request is impossible."""


class ClientClosed(TransportError):
    """`close()` was called before the response arrived.

    If the request was not sent yet, the server did not process it.
    """


class ApiError(KubeError):
    """The server responded with a status other than 2xx, or a watch sent an ERROR event."""

    def __init__(self, status: Status, context: str = "", retry_after: float | None = None) -> None:
        """`context` names the request, for example `create pods ns/name`.

        `retry_after` is the number of seconds that the server requests to wait, for example in the `Retry-After`
        header.
        """
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
        """The machine-readable reason, for example `AlreadyExists`. It is empty if the server sent no reason."""
        return self.status.reason

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The causes in the Status. A 422 has a cause for each invalid field."""
        return self.status.details.causes if self.status.details else ()


class BadRequestError(ApiError):
    """400: the server can't interpret the request, for example a malformed label selector."""


class UnauthorizedError(ApiError):
    """401: the request has no credentials, or wrong credentials."""


class ForbiddenError(ApiError):
    """403: RBAC or an admission plugin refuses the request."""


class NotFoundError(ApiError):
    """404: the object, its namespace or the resource type does not exist."""


class MethodNotAllowedError(ApiError):
    """405: the resource does not support this verb. Some servers offer objects that clients can only read."""


class ConflictError(ApiError):
    """409 on a write: its resourceVersion is outdated, or a precondition failed."""


class AlreadyExistsError(ConflictError):
    """409 with reason AlreadyExists: an object with this name already exists."""


class GoneError(ApiError):
    """410: the resourceVersion or continue token is too old (reasons Expired and Gone)."""


class UnsupportedMediaTypeError(ApiError):
    """415: the server does not support the `Content-Type` of the request, for example a type of patch."""


class InvalidError(ApiError):
    """422: the object is not valid. `causes` names the fields."""


class TooManyRequestsError(ApiError):
    """429: too many requests. `retry_after` is the wait that the server requests, if it requests one."""


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
    """Return the error for a Status. The class depends on `status.code`, for example NotFoundError for 404.

    For 409 the class also depends on `status.reason`. The details of the Status replace a missing `retry_after`.
    """
    kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    if status.code == 409 and status.reason == "AlreadyExists":
        kind = AlreadyExistsError
    if retry_after is None and status.details is not None and status.details.retry_after_seconds > 0:
        retry_after = status.details.retry_after_seconds
    return kind(status, context, retry_after)


def exceeds_quota(error: KubeError) -> bool:
    """Return whether a ResourceQuota refused a creation. In the errors of API servers, only the message shows this."""
    return isinstance(error, ForbiddenError) and "exceeded quota" in error.status.message


def namespace_is_ending(error: KubeError) -> bool:
    """Return whether a write failed because its namespace is being deleted or does not exist any more.

    A retry does not help.
    """
    if not isinstance(error, ApiError) or error.status.details is None:
        return False
    details = error.status.details
    if isinstance(error, ForbiddenError):
        return any(cause.reason == "NamespaceTerminating" for cause in error.causes)
    return isinstance(error, NotFoundError) and details.kind == "namespaces"


def is_expired(error: BaseException) -> bool:
    """Return whether the error means that a resourceVersion or a continue token is too old.

    The server reports this as a 410, or as an ERROR event that contains only the reason.
    """
    return isinstance(error, GoneError) or (isinstance(error, ApiError) and error.reason in ("Expired", "Gone"))


def is_unavailable_version(error: BaseException) -> bool:
    """Return whether the error means that the server can't serve the requested resourceVersion.

    The version may be too old, or unknown to the server. A server that lags behind etcd does not know a new version
    yet. After a restore of etcd from a backup, the server may never reach the version. For an unknown version, the
    server responds with 504 (Timeout). Since Kubernetes 1.18.6 a cause of the Status has the reason
    `ResourceVersionTooLarge`. From 1.17 to 1.18.5, the cause has only the message `Too large resource version`. Before
    1.17, this is the message of the Status itself.
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
    """Return whether the server, the network or a gateway failed (no response, or 5xx).

    Return False if the server refused the request (4xx).
    """
    return isinstance(error, TransportError | ServerError)
