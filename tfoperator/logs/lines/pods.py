"""The log of a pod's container. Errors of the API are converted to the errors of `LogReader`."""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.kube.client import Client
from tfoperator.kube.http.connections.stream import ByteStream
from tfoperator.kube.protocol.errors import (
    BadRequestError,
    ClientClosed,
    KubeError,
    UnauthorizedError,
)
from tfoperator.kube.protocol.retry import Outages
from tfoperator.logs.lines.reader import LogConnection, LogCut, LogNotYet, NoLog


def open_pod_log(
    client: Client,
    namespace: str,
    pod: str,
    container: str,
    since: str,
    *,
    outages: Outages,
    tail_lines: int | None = None,
    previous: bool = False,
    since_seconds: int | None = None,
) -> LogConnection:
    """Follow a container's log, with time stamps, from the time `since` on (RFC 3339; "" for the whole log).

    With `previous`, read the log of the previous run, which has ended. `since_seconds` is used only if `since` is "".
    `outages` decides which errors are temporary. Pass the same object for all connections to a log.

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
        raise _log_error(error, outages) from error
    return _PodLog(stream, outages)


class _PodLog:
    def __init__(self, stream: ByteStream, outages: Outages) -> None:
        self._stream = stream
        self._outages = outages

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except KubeError as error:
            raise _log_error(error, self._outages) from error

    def close(self) -> None:
        self._stream.close()


def _log_error(error: KubeError, outages: Outages) -> LogCut | NoLog:
    if isinstance(error, BadRequestError):
        return LogNotYet(str(error))
    if isinstance(error, ClientClosed):
        return NoLog(str(error))
    # After 401, a retry may use a new token.
    passes = outages.passes(error) or isinstance(error, UnauthorizedError)
    return LogCut(str(error)) if passes else NoLog(str(error))
