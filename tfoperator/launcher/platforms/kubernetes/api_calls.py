"""Sends requests to an API server, with a launcher's retries."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from tfoperator.base.clock import StopSignal
from tfoperator.kube import ListOptions
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import (
    AlreadyExistsError,
    BadRequestError,
    ClientClosed,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from tfoperator.kube.protocol.resources import EVENTS, Resource
from tfoperator.kube.protocol.retry import Outages
from tfoperator.kube.views.event import Event, decode_event
from tfoperator.launcher.container.backend import Launch
from tfoperator.launcher.core.context import CLEAN_UP_POLICY, RetryPolicy
from tfoperator.launcher.core.errors import PermanentFailure, PlatformUnavailable
from tfoperator.logs.lines.pods import open_pod_log
from tfoperator.logs.lines.reader import LogConnection

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_REFUSALS = 3  # responses with 401 in a row; a rotated token is read again at latest after the second response


def is_transient(error: BaseException) -> bool:
    """Return whether a request may succeed later: the API server fails (5xx), is overloaded (429), or can't be reached.

    A conflict (409) is transient, too, unless the object already exists.
    """
    if isinstance(error, ClientClosed | AlreadyExistsError):
        return False
    return isinstance(error, TransportError | ServerError | TooManyRequestsError | ConflictError)


class ApiCalls:
    """Sends the requests of one launch. Thread-safe."""

    def __init__(self, client: Client, namespace: str, launch: Launch) -> None:
        self.client = client
        self.namespace = namespace
        self._launch = launch
        self._lock = threading.Lock()  # guards _outages
        self._outages = Outages(launch.context.clock)

    def patiently(self, what: str, call: Callable[[], T]) -> T:
        """Return the result of `call`, a request, with retries after transient errors.

        Raises LaunchCancelled if the launch is cancelled during a wait between two attempts. Raises PlatformUnavailable
        if all retries fail, and PermanentFailure if the API server refuses the object as invalid (400, 422). Other
        errors, such as 403 and 404, are raised unchanged. Shortly after an outage, 403 and 401 are transient, because
        an API server that has just started refuses requests.
        """
        try:
            return self._repeated(what, call, self._launch.context.api_retry, self._launch.cancelled)
        except (InvalidError, BadRequestError) as error:
            raise PermanentFailure(f"the API server refuses the object: {error}") from error
        except KubeError as error:
            if is_transient(error):
                raise PlatformUnavailable(
                    f"the API server does not answer, or answers with an error: {error}"
                ) from error
            raise

    def delete(self, resource: Resource, name: str, uid: str) -> None:
        """Delete the object with this name and UID if it still exists. Only log a failure.

        So an object that can't be deleted does not change the outcome of the launch.
        """
        try:
            # A cancelled launch deletes its object. So `cancelled`, which is set then, must not end the retries.
            self._repeated(
                f"delete {name}",
                lambda: self.client.delete(resource, self.namespace, name, uid=uid, propagation_policy="Background"),
                CLEAN_UP_POLICY,
                StopSignal(),
            )
        except (NotFoundError, ConflictError):
            pass  # the object does not exist, or another object has its name
        except KubeError as error:
            logger.warning("%s %s/%s could not be deleted: %s", resource.kind, self.namespace, name, error)

    def warning(self, uid: str) -> str:
        """Return the newest event of type Warning about an object, as `REASON: MESSAGE`.

        Return "" if there is no such event, or if events can't be read.
        """
        selector = f"involvedObject.uid={uid},type=Warning"
        try:
            options = ListOptions(field_selector=selector, limit=500)
            page = self.client.list(EVENTS, self.namespace, decode_event, options)
        except KubeError as error:
            logger.debug("the events of %s can't be read: %s", uid, error)
            return ""
        newest = max(page.items, key=lambda event: event.last_seen, default=None)
        return f"{newest.reason}: {newest.message}" if newest else ""

    def events(self, uid: str) -> tuple[Event, ...]:
        """Return the events about an object.

        The result is empty if the API server refuses the request, for example because the launcher has no right to
        read events. Raises the errors of `patiently`: LaunchCancelled, PlatformUnavailable or PermanentFailure.
        """
        options = ListOptions(field_selector=f"involvedObject.uid={uid}", limit=500)
        try:
            page = self.patiently(
                f"list the events of {uid}", lambda: self.client.list(EVENTS, self.namespace, decode_event, options)
            )
        except KubeError as error:
            logger.warning("the events of %s can't be read: %s", uid, error)
            return ()
        return tuple(page.items)

    def log(self, pod: str, container: str) -> Callable[[str], LogConnection]:
        """Return a function for `Launch.forward_log`: it takes a time, and opens the container's log from then on."""
        outages = Outages(self._launch.context.clock)
        return lambda since: open_pod_log(self.client, self.namespace, pod, container, since, outages=outages)

    def may_pass(self, error: BaseException) -> bool:
        """Return whether a request may succeed later: see `is_transient`, and for 401 and 403 `Outages`."""
        with self._lock:
            passes = self._outages.passes(error)
        return is_transient(error) or (passes and isinstance(error, ForbiddenError | UnauthorizedError))

    def _repeated(self, what: str, call: Callable[[], T], policy: RetryPolicy, cancelled: StopSignal) -> T:
        refusals = 0

        def worth_it(error: BaseException) -> bool:
            nonlocal refusals
            passes = self.may_pass(error)
            if isinstance(error, UnauthorizedError):
                refusals += 1
                return passes or refusals < _MAX_REFUSALS
            refusals = 0
            return passes

        return self._launch.context.repeated(call, policy, worth_it, cancelled=cancelled, what=what)
