"""Tells the API server of a pod: its status whenever that has changed, and each warning once."""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.base.clock import Clock
from tfoperator.local.node.container_record import ContainerRecord
from tfoperator.local.node.pod_api import PodApi
from tfoperator.local.node.pod_status import StatusRenderer
from tfoperator.local.runtime import LocalPod


class PodReporter:
    """Belongs to the pod's worker; `warn_once` alone may be called by the runtime's threads, too."""

    def __init__(self, pod: LocalPod, api: PodApi, clock: Clock) -> None:
        self._pod = pod
        self._api = api
        self._clock = clock
        self._renderer = StatusRenderer(clock.now())
        self._reported: dict[str, object] = {}
        self._warned: set[str] = set()

    def has_address(self, ip: str) -> None:
        """The pod has got this address."""
        self._renderer.pod_ip = ip

    def status(
        self,
        phase: str,
        init: Sequence[ContainerRecord],
        main: Sequence[ContainerRecord],
        reason: str = "",
        message: str = "",
    ) -> None:
        """Report the state of the pod and of its containers."""
        now = self._clock.now()
        self._report(self._renderer.render(phase, init, main, now, reason=reason, message=message))

    def unschedulable(self, message: str, details: str) -> None:
        """Report that there is no room for the pod."""
        self._report(self._renderer.unschedulable(message, self._clock.now()))
        self.warn_once("FailedScheduling", f"{message} ({details})")

    def warn_once(self, reason: str, message: str) -> None:
        """Record a warning about the pod, unless the same was recorded before."""
        if message not in self._warned:
            self._warned.add(message)
            self._api.event(self._pod, "Warning", reason, message)

    def _report(self, status: dict[str, object]) -> None:
        if status != self._reported:
            self._reported = status
            self._api.report(self._pod, status)
