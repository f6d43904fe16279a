"""Runs a launch's container as a pod: waits for it, with a bound on what it waits for itself, and tells its log."""

from __future__ import annotations

import logging
from typing import Any

from tfoperator.kube.client import Client
from tfoperator.kube.errors import KubeError, UnauthorizedError
from tfoperator.kube.resources import PODS
from tfoperator.launcher.base import BaseComponentLauncher
from tfoperator.launcher.container_launcher import NeverStarted
from tfoperator.launcher.errors import LaunchCancelled, PlatformUnavailable
from tfoperator.launcher.following import Failed, Gone, ObjectFollower, State
from tfoperator.launcher.kube_backend import DEFAULT_GRACE, KubeBackend
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

__all__ = ["RETRY", "PodBackend", "PodWait", "check_followed"]

logger = logging.getLogger(__name__)

Json = dict[str, Any]

RETRY = 2.0  # seconds before following is tried again


class PodBackend(KubeBackend):
    """See `container_launcher.Backend`."""

    def __init__(self, launcher: BaseComponentLauncher, client: Client, namespace: str, manifest: Json) -> None:
        grace = manifest["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)
        super().__init__(launcher, client, namespace, PODS, manifest, grace)
        self._stopped: PodWait | None = None

    def wait(self, name: str, uid: str) -> ContainerEnd:
        """Follow the pod to its container's end."""
        wait = PodWait(self.launcher, self.calls, name, uid)
        self.mailbox = Mailbox(self.context.clock)
        try:
            while True:
                with ObjectFollower(self.calls, PODS, name, uid, decode_pod_view, self.mailbox):
                    end = self._watch(wait)
                if end is not None:
                    break
                if self.launcher.cancelled.wait(self.context.clock, RETRY):
                    raise self.cancellation(name)
        except (LaunchCancelled, NeverStarted):
            self._stopped = wait  # it still runs, and has more to say while it is stopped
            raise
        except BaseException:
            wait.finish(0.0)
            raise
        wait.finish()
        return end

    def stop(self, name: str, uid: str) -> None:
        """Delete the pod with its grace period, and wait until it is gone; its last words are told."""
        super().stop(name, uid)
        if self._stopped is not None:
            self._stopped.finish(2.0)
            self._stopped = None

    def _watch(self, wait: PodWait) -> ContainerEnd | None:
        """Take messages until the container has ended; None if following has to begin anew."""
        while True:
            if self.launcher.cancelled.is_set():
                raise self.cancellation(wait.name)
            message = self.mailbox.take(wait.deadline)
            match message:
                case State(pod):
                    if (end := wait.seen(pod)) is not None:
                        return end
                case Gone():
                    return lost_end(wait.last, f"{self.calls.namespace}/{wait.name}")
                case Failed(error):
                    wait.check(error)
                    return None
            wait.check_pending()


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
        check_followed(error, self._refusals, self._context.api_retry.attempts)

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


def check_followed(error: KubeError, failures: int, most: int) -> None:
    """Following has failed for the n-th time in a row: raise what makes another try pointless."""
    if not (is_transient(error) or isinstance(error, UnauthorizedError)):
        raise error
    if failures >= most:
        raise PlatformUnavailable(f"the API server can't be followed: {error}") from error
