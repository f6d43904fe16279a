"""Runs a launch's container as a pod: waits for it, with a bound on what it waits for itself, and forwards its log."""

from __future__ import annotations

from typing import Any

from tfoperator.kube.client import Client
from tfoperator.kube.resources import PODS
from tfoperator.launcher.container import Launch, LogForwarder, NeverStarted
from tfoperator.launcher.core import ContainerEnd
from tfoperator.launcher.platforms.kubernetes.api_calls import ApiCalls
from tfoperator.launcher.platforms.kubernetes.layers import MAIN
from tfoperator.launcher.platforms.kubernetes.object_backend import DEFAULT_GRACE, ObjectBackend
from tfoperator.launcher.platforms.kubernetes.pod_status import (
    Pending,
    PodView,
    container_end,
    decode_pod_view,
    has_started,
    lost_end,
    pending,
)


class PodBackend(ObjectBackend[PodView]):
    """A `container.Backend` of pods."""

    def __init__(self, launch: Launch, client: Client, namespace: str, manifest: dict[str, Any]) -> None:
        grace = manifest["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)
        super().__init__(launch, client, namespace, PODS, decode_pod_view, manifest, grace)

    def _begin_wait(self, name: str, uid: str) -> PodWait:
        return PodWait(self.launch, self.calls, name, uid)


class PodWait:
    """An `ObjectWait` for a pod: its last state, since when it waits for what, and its log."""

    def __init__(self, launch: Launch, calls: ApiCalls, name: str, uid: str) -> None:
        self._launch = launch
        self._context = launch.context
        self._calls = calls
        self._name = name
        self._uid = uid
        self._last: PodView | None = None
        self._pending: Pending | None = None
        self._since = self._context.clock.monotonic()
        self._log: LogForwarder | None = None

    @property
    def deadline(self) -> float | None:
        """Until when the pod may wait, on `monotonic()`; None while it doesn't."""
        if self._pending is None:
            return None
        return self._since + self._context.pending.seconds(self._pending.limit)

    def seen(self, state: PodView) -> ContainerEnd | None:
        """See `ObjectWait`."""
        self._last = state
        if self._log is None and has_started(state):
            self._log = self._launch.forward_log(self._name, self._calls.log(self._name, MAIN))
        waits = pending(state)
        if waits is None or self._pending is None or waits.limit != self._pending.limit:
            self._since = self._context.clock.monotonic()
        if waits is not None and str(waits) != str(self._pending):
            self._context.tell(f"pod {self._name} waits: {waits}")
        self._pending = waits
        return container_end(state)

    def gone(self) -> ContainerEnd:
        """See `ObjectWait`."""
        return lost_end(self._last, f"{self._calls.namespace}/{self._name}")

    def check_deadline(self) -> None:
        """Raise NeverStarted if the pod has waited for too long, or for what will never come."""
        waits, deadline = self._pending, self.deadline
        if waits is None or deadline is None:
            return
        now = self._context.clock.monotonic()
        if now < deadline:
            return
        event = self._calls.warning(self._uid)
        said = f"{waits} ({event})" if event and event not in str(waits) else str(waits)
        what = "has not been scheduled" if waits.limit == "schedule" else "has not started"
        after = f" after {now - self._since:.0f} s" if waits.limit else ""
        raise NeverStarted(f"pod {self._calls.namespace}/{self._name} {what}{after}: {said}")

    def finish(self, seconds: float = 10.0) -> None:
        """See `ObjectWait`."""
        if self._log is not None:
            self._log.finish(seconds)
            self._log = None
