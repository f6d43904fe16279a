"""Requests to an API server with a launcher's patience, and the log of a container as a `LogSource`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from tfoperator.clock import StopSignal
from tfoperator.kube.client import Client
from tfoperator.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ClientClosed,
    ConflictError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from tfoperator.kube.log_stream import LogStream
from tfoperator.kube.resources import EVENTS, Resource
from tfoperator.kube.verbs import decoder
from tfoperator.launcher.context import LaunchContext
from tfoperator.launcher.errors import PermanentFailure, PlatformUnavailable
from tfoperator.launcher.event_view import EventView
from tfoperator.launcher.log_follower import LogCut, LogNotYet, LogSource, NoLog
from tfoperator.launcher.retry import RetryPolicy

__all__ = ["KubeCalls", "is_transient"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_REFUSALS = 3  # 401s in a row: a token that is being rotated is there after the second

_decode_event = decoder(EventView)


def is_transient(error: BaseException) -> bool:
    """Whether an error of the API passes: the server fails, is overloaded, or can't be reached."""
    if isinstance(error, ClientClosed | AlreadyExistsError):
        return False
    return isinstance(error, TransportError | ServerError | TooManyRequestsError | ConflictError)


class KubeCalls:
    """Requests of one launch. Thread-safe."""

    def __init__(self, client: Client, namespace: str, context: LaunchContext, cancelled: StopSignal) -> None:
        self.client = client
        self.namespace = namespace
        self._context = context
        self._cancelled = cancelled

    def patiently(self, what: str, call: Callable[[], T]) -> T:
        """Call until it succeeds. PlatformUnavailable if the API fails for too long, PermanentFailure if it refuses
        the object, LaunchCancelled; other refusals (403, 404) are raised as they are.
        """  # fmt: skip
        try:
            return self._repeated(what, call, self._context.api_retry, self._cancelled)
        except (InvalidError, BadRequestError) as error:
            raise PermanentFailure(f"the API server refuses it: {error}") from error
        except KubeError as error:
            if is_transient(error):
                raise PlatformUnavailable(f"the API server can't be reached or fails: {error}") from error
            raise

    def delete(self, resource: Resource, name: str, uid: str) -> None:
        """Delete an object if it is still there, with 5 tries; a failure is logged: there is nobody to handle it."""
        policy = RetryPolicy(attempts=5, initial=0.5, maximum=5.0)
        try:
            # Not interrupted by a cancellation: this is what one asks for.
            self._repeated(
                f"delete {name}",
                lambda: self.client.delete(resource, self.namespace, name, uid=uid, propagation_policy="Background"),
                policy,
                StopSignal(),
            )
        except (NotFoundError, ConflictError):
            pass  # gone, or another one has its name by now
        except KubeError as error:
            logger.warning("%s %s/%s could not be deleted: %s", resource.kind, self.namespace, name, error)

    def warnings(self, uid: str) -> str:
        """The newest warning event about an object, "" if there is none or events can't be read."""
        try:
            page = self.client.list(
                EVENTS, self.namespace, _decode_event, field_selector=f"involvedObject.uid={uid}", limit=500
            )
        except KubeError as error:
            logger.debug("the events of %s can't be read: %s", uid, error)
            return ""
        newest = max((e for e in page.items if e.type == "Warning"), key=lambda e: e.when, default=None)
        return f"{newest.reason}: {newest.message}" if newest else ""

    def log(self, pod: str, container: str) -> Callable[[str], LogSource]:
        """How to open a container's log from a time on."""

        def connect(since: str) -> LogSource:
            try:
                stream = self.client.pod_log(
                    self.namespace, pod, container, follow=True, timestamps=True, since_time=since
                )
            except BadRequestError as error:
                raise LogNotYet(str(error)) from error
            except UnauthorizedError as error:  # a token that is being rotated
                raise LogCut(str(error)) from error
            except KubeError as error:
                raise (LogCut if is_transient(error) else NoLog)(str(error)) from error
            return _PodLog(stream)

        return connect

    def _repeated(self, what: str, call: Callable[[], T], policy: RetryPolicy, cancelled: StopSignal) -> T:
        refusals = 0

        def worth_it(error: BaseException) -> bool:
            nonlocal refusals
            if isinstance(error, UnauthorizedError):
                refusals += 1
                return refusals < _MOST_REFUSALS
            refusals = 0
            return is_transient(error)

        return self._context.repeated(call, policy, worth_it, cancelled=cancelled, what=what)


class _PodLog:
    """The log stream of a pod, with its errors in the log follower's words."""

    def __init__(self, stream: LogStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except KubeError as error:
            raise LogCut(str(error)) from error

    def close(self) -> None:
        self._stream.close()
