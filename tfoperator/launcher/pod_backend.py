"""Runs a launch's container as a pod: creates it, waits for it, tells its log, removes it."""

from __future__ import annotations

import copy
import logging
from typing import Any

from tfoperator.kube.client import Client
from tfoperator.kube.errors import AlreadyExistsError, KubeError, UnauthorizedError
from tfoperator.kube.following import Follower
from tfoperator.kube.objects import PartialObject
from tfoperator.kube.resources import PODS, Resource
from tfoperator.kube.verbs import WatchEventType, decoder
from tfoperator.launcher.base import BaseComponentLauncher
from tfoperator.launcher.container_launcher import NeverStarted
from tfoperator.launcher.errors import LaunchCancelled, PermanentFailure, PlatformUnavailable
from tfoperator.launcher.following import Failed, Gone, ObjectFollower, State
from tfoperator.launcher.kube_calls import KubeCalls, is_transient
from tfoperator.launcher.layers import MAIN
from tfoperator.launcher.log_follower import LogFollower
from tfoperator.launcher.mailbox import Mailbox
from tfoperator.launcher.outcome import ContainerEnd
from tfoperator.launcher.pod_view import (
    Pending,
    PodView,
    container_end,
    decode_pod_view,
    has_started,
    lost_end,
    pending,
)

__all__ = ["LAUNCH_LABEL", "PodBackend", "PodWait", "stop_object"]

logger = logging.getLogger(__name__)

Json = dict[str, Any]

LAUNCH_LABEL = "tfoperator.launcher/run"
"""On everything that a launch creates: the random piece of its names. Only what has it is ever adopted or deleted."""

_GRACE = 30  # seconds; Kubernetes' default terminationGracePeriodSeconds
_BEYOND_GRACE = 30.0  # seconds that a node may take beyond that
_RETRY = 2.0  # seconds before following is tried again


class PodBackend:
    """See `container_launcher.Backend`. `manifest` is the pod without its name."""

    def __init__(self, launcher: BaseComponentLauncher, client: Client, namespace: str, manifest: Json) -> None:
        self._launcher = launcher
        self._context = launcher.context
        self._manifest = manifest
        self._calls = KubeCalls(client, namespace, launcher.context, launcher.cancelled)
        self._mailbox: Mailbox[object] = Mailbox(launcher.context.clock)  # a new one for each wait; any thread puts
        self._stopped: PodWait | None = None

    def create(self, name: str) -> str:
        """Create the pod, or find that this launch has done so."""
        calls, run = self._calls, self._launcher.record.run
        body = copy.deepcopy(self._manifest)
        body["metadata"] |= {"name": name, "labels": {**body["metadata"].get("labels", {}), LAUNCH_LABEL: run}}
        try:
            pod = calls.patiently(
                f"create pod {name}", lambda: calls.client.create(PODS, calls.namespace, body, decode_pod_view)
            )
        except AlreadyExistsError as error:
            # An answer that was lost, or a launcher that was killed before it could write down the UID.
            pod = calls.patiently(
                f"get pod {name}", lambda: calls.client.get(PODS, calls.namespace, name, decode_pod_view)
            )
            if pod.metadata.labels.get(LAUNCH_LABEL) != run:
                raise PermanentFailure(f"pod {calls.namespace}/{name} exists, and is not this launch's") from error
        self._context.tell(f"pod {calls.namespace}/{name} created")
        return pod.metadata.uid

    def wait(self, name: str, uid: str) -> ContainerEnd:
        """Follow the pod to its container's end."""
        wait = PodWait(self._launcher, self._calls, name, uid)
        self._mailbox = Mailbox(self._context.clock)
        try:
            while True:
                with ObjectFollower(self._calls, PODS, name, uid, decode_pod_view, self._mailbox):
                    end = self._watch(wait)
                if end is not None:
                    break
                if self._launcher.cancelled.wait(self._context.clock, _RETRY):
                    raise self._cancellation(name)
        except (LaunchCancelled, NeverStarted):
            self._stopped = wait  # it still runs, and has more to say while it is stopped
            raise
        except BaseException:
            wait.finish(0.0)
            raise
        wait.finish()
        return end

    def stop(self, name: str, uid: str) -> None:
        """Delete the pod with its grace period, and wait until it is gone."""
        grace = self._manifest["spec"].get("terminationGracePeriodSeconds", _GRACE)
        self._context.tell(f"stopping pod {self._calls.namespace}/{name}")
        stop_object(self._calls, PODS, name, uid, self._context.clock.monotonic() + grace + _BEYOND_GRACE)
        if self._stopped is not None:
            self._stopped.finish(2.0)
            self._stopped = None

    def remove(self, name: str, uid: str) -> None:
        """Delete the pod."""
        self._calls.delete(PODS, name, uid)

    def wake(self) -> None:
        """See `Backend`."""
        self._mailbox.put(None)

    def _watch(self, wait: PodWait) -> ContainerEnd | None:
        """Take messages until the container has ended; None if following has to begin anew."""
        while True:
            if self._launcher.cancelled.is_set():
                raise self._cancellation(wait.name)
            message = self._mailbox.take(wait.deadline)
            match message:
                case State(pod):
                    if (end := wait.seen(pod)) is not None:
                        return end
                case Gone():
                    return lost_end(wait.last, f"{self._calls.namespace}/{wait.name}")
                case Failed(error):
                    wait.check(error)
                    return None
            wait.check_pending()

    def _cancellation(self, name: str) -> LaunchCancelled:
        return LaunchCancelled(f"component {self._launcher.component.name}: cancelled; pod {name} was stopped")


class PodWait:
    """What is known of a pod while it is waited for: its last state, since when it waits for what, its log."""

    def __init__(self, launcher: BaseComponentLauncher, calls: KubeCalls, name: str, uid: str, container: str = MAIN):
        self.name = name
        self.last: PodView | None = None
        self._launcher = launcher
        self._context = launcher.context
        self._calls = calls
        self._uid = uid
        self._container = container
        self._pending: Pending | None = None
        self._since = self._context.clock.monotonic()
        self._log: LogFollower | None = None
        self._refusals = 0

    @property
    def deadline(self) -> float | None:
        """Until when the pod may wait, on `monotonic()`; None while it doesn't."""
        if self._pending is None:
            return None
        return self._since + self._context.pending.seconds(self._pending.limit)

    def seen(self, pod: PodView) -> ContainerEnd | None:
        """The pod has changed; how its container has ended, if it has."""
        self.last = pod
        self._refusals = 0
        if self._log is None and has_started(pod, self._container):
            self._start_log()
        waits = pending(pod, self._container)
        if waits is None or self._pending is None or waits.limit != self._pending.limit:
            self._since = self._context.clock.monotonic()
        if waits is not None and str(waits) != str(self._pending):
            self._context.tell(f"pod {self.name} waits: {waits}")
        self._pending = waits
        return container_end(pod, self._container)

    def check_pending(self) -> None:
        """Raise NeverStarted if the pod has waited for too long, or for what will never come."""
        waits, deadline = self._pending, self.deadline
        if waits is None or deadline is None:
            return
        now = self._context.clock.monotonic()
        if now < deadline:
            return
        event = self._calls.warnings(self._uid)
        said = f"{waits} ({event})" if event and event not in str(waits) else str(waits)
        what = "has not been scheduled" if waits.limit == "schedule" else "has not started"
        after = f" after {now - self._since:.0f} s" if waits.limit else ""
        raise NeverStarted(f"pod {self._calls.namespace}/{self.name} {what}{after}: {said}")

    def check(self, error: KubeError) -> None:
        """Following has failed: raise what makes another try pointless."""
        self._refusals += 1
        passes = is_transient(error) or isinstance(error, UnauthorizedError)
        if passes and self._refusals < self._context.api_retry.attempts:
            return
        if passes:
            raise PlatformUnavailable(f"pod {self.name} can't be followed: {error}") from error
        raise error

    def finish(self, seconds: float = 10.0) -> None:
        """The wait is over: tell what is left of the log, for so many seconds at most."""
        if self._log is not None:
            self._log.finish(seconds)
            self._log = None

    def _start_log(self) -> None:
        work = self._launcher.work
        self._log = LogFollower(
            self.name,
            self._calls.log(self.name, self._container),
            self._context.log,
            clock=self._context.clock,
            position=work.log_position(),
            keep=work.keep_log_position,
        )
        self._log.start()


def stop_object(calls: KubeCalls, resource: Resource, name: str, uid: str, deadline: float) -> None:
    """Delete an object and wait until it is gone, or until the deadline; never raises for the API's failures."""
    calls.delete(resource, name, uid)
    follower = Follower(
        calls.client,
        resource,
        calls.namespace,
        decoder(PartialObject),
        field_selector=f"metadata.name={name}",
        deadline=deadline,
    )
    there = False
    try:
        for change in follower:
            if change.type is WatchEventType.DELETED or (change.type is WatchEventType.BOOKMARK and not there):
                return
            there = there or (change.object is not None and uid in ("", change.object.metadata.uid))
    except KubeError as error:
        logger.warning("whether %s %s is gone can't be seen: %s", resource.kind, name, error)
        return
    logger.warning("%s %s/%s is still there; it was told to go", resource.kind, calls.namespace, name)
