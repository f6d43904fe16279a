"""The log of a pod's container. Errors of the API are converted to the errors of `LogReader`."""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.kube.client import Client
from tfoperator.kube.http.connections.stream import ByteStream
from tfoperator.kube.protocol.errors import (
    BadRequestError,
    ClientClosed,
    KubeError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from tfoperator.logs.lines.reader import LogConnection, LogCut, LogNotYet, NoLog

_TRANSIENT_ERRORS = (TransportError, ServerError, TooManyRequestsError, UnauthorizedError)
"""Errors after which a retry may succeed. After 401 (UnauthorizedError), a retry may use a new token."""


def open_pod_log(
    client: Client,
    namespace: str,
    pod: str,
    container: str,
    since: str,
    *,
    tail_lines: int | None = None,
    previous: bool = False,
    since_seconds: int | None = None,
) -> LogConnection:
    """Follow a container's log, with time stamps, from the time `since` on (RFC 3339; "" for the whole log).

    With `previous`, read the log of the previous run, which has ended. `since_seconds` is used only if `since` is "".

    Raises LogCut, LogNotYet or NoLog. The KubeError is the `__cause__` of the exception.
    """
    try:
        stream = client.pod_log(
            namespace,
            pod,
            container,
            follow=not previous,
            previous=previous,
            tail_lines=tail_lines,
            since=since or since_seconds,
            timestamps=True,
        )
    except KubeError as error:
        raise _log_error(error) from error
    return _PodLog(stream)


class _PodLog:
    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except KubeError as error:
            raise _log_error(error) from error

    def close(self) -> None:
        self._stream.close()


def _log_error(error: KubeError) -> LogCut | NoLog:
    if isinstance(error, BadRequestError):
        return LogNotYet(str(error))
    passes = isinstance(error, _TRANSIENT_ERRORS) and not isinstance(error, ClientClosed)
    return LogCut(str(error)) if passes else NoLog(str(error))
