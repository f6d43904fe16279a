"""What a failed list or watch means for a reflector: which errors call for another resourceVersion, which for time.

Servers of different ages say the same thing in different words; the words are known here and nowhere else.
"""

from __future__ import annotations

from tfoperator.kube.errors import ApiError, BadRequestError, GoneError, InvalidError, ServerError, TransportError

_TOO_LARGE_CAUSE = "ResourceVersionTooLarge"
_TOO_LARGE_MESSAGE = "Too large resource version"


def is_expired(error: BaseException) -> bool:
    """Whether the resourceVersion or continue token is too old: 410, or an ERROR event that only gives the reason."""
    return isinstance(error, GoneError) or (isinstance(error, ApiError) and error.reason in ("Expired", "Gone"))


def is_too_large_resource_version(error: BaseException) -> bool:
    """Whether the server does not know the resourceVersion *yet*, or never will (restored from a backup).

    A cause with a reason of its own since Kubernetes 1.18.6; before, a cause with only this message; before 1.17,
    the message of the status itself. All are time-outs (504).
    """
    if not isinstance(error, ApiError):
        return False
    causes = error.status.details.causes if error.status.details else ()
    if any(cause.reason == _TOO_LARGE_CAUSE for cause in causes):
        return True
    if error.code != 504 and error.reason != "Timeout":
        return False
    return any(cause.message == _TOO_LARGE_MESSAGE for cause in causes) or _TOO_LARGE_MESSAGE in error.status.message


def is_outage(error: BaseException) -> bool:
    """Whether the server, or a gateway before it, has failed, which is not to say that it refuses."""
    return isinstance(error, TransportError | ServerError)


def is_unsupported(error: BaseException) -> bool:
    """Whether a server refused the *form* of a request: it does not know the parameters (or the verb)."""
    return isinstance(error, BadRequestError | InvalidError) or (isinstance(error, ApiError) and error.code == 405)
