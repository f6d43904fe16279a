"""Makes a pod's status from the state of its containers, as the kubelet does, and reports the status.

The operator's decisions depend on these fields. For the operator, a local pod must look like a pod in a cluster. So the
structure, the reasons and the rules (ready, phase, restart counts, last state) are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tfoperator.base.clock import Clock
from tfoperator.kube.views.objects import timestamp
from tfoperator.local.node.container_record import ContainerRecord
from tfoperator.local.node.container_status import container_statuses, init_container_statuses
from tfoperator.local.node.node_api import NodeApi
from tfoperator.local.node.pod_conditions import KubeletCondition, pod_conditions
from tfoperator.local.runtime.loopback_network import LOOPBACK
from tfoperator.local.runtime.protocol import LocalPod


class PodReporter:
    """Makes the pod's status and reports it when it has changed. Reports each warning once.

    Use it only in the pod's worker. Threads of the runtime may call only `warn_once`.
    """

    def __init__(self, pod: LocalPod, api: NodeApi, clock: Clock) -> None:
        self.pod_ip = ""
        """The pod's address. It is empty until the pod gets an address."""
        self.generation = pod.metadata.generation
        """The generation of the spec that the worker has applied."""
        self._pod = pod
        self._api = api
        self._clock = clock
        self._started: datetime | None = None
        self._since: dict[str, tuple[str, datetime]] = {}
        self._reported: dict[str, object] = {}
        self._warned: set[str] = set()

    def status(
        self,
        phase: str,
        init: Sequence[ContainerRecord],
        main: Sequence[ContainerRecord],
        reason: str = "",
        message: str = "",
    ) -> None:
        """Report the state of the pod and the states of its containers."""
        now = self._clock.now()
        # As with a kubelet, the start time is the time of the first report: while a pod waits for GPUs, it is not on
        # the node yet.
        self._started = self._started or now
        conditions = pod_conditions(phase, init, main, has_address=bool(self.pod_ip))
        status: dict[str, Any] = {
            "phase": phase,
            **self._observed(),
            "conditions": [self._condition(condition, now) for condition in conditions],
            "hostIP": LOOPBACK,
            "hostIPs": [{"ip": LOOPBACK}],
            "startTime": timestamp(self._started),
            "containerStatuses": container_statuses(main, has_init=bool(init)),
        }
        if self.pod_ip:
            status |= {"podIP": self.pod_ip, "podIPs": [{"ip": self.pod_ip}]}
        if init:
            status["initContainerStatuses"] = init_container_statuses(init)
        if reason:
            status["reason"] = reason
        if message:
            status["message"] = message
        self._report(status)

    def unschedulable(self, message: str, details: str) -> None:
        """Report that the pod does not fit on the node, as a scheduler reports it."""
        scheduled = KubeletCondition("PodScheduled", False, "Unschedulable", message)
        self._report({"phase": "Pending", "conditions": [self._condition(scheduled, self._clock.now())]})
        self.warn_once("FailedScheduling", f"{message} ({details})")

    def warn_once(self, reason: str, message: str) -> None:
        """Record a warning about the pod, unless the same warning was recorded before."""
        if message not in self._warned:
            self._warned.add(message)
            self._api.warn(self._pod, reason, message)

    def _report(self, status: dict[str, object]) -> None:
        if status != self._reported:
            self._reported = status
            self._api.report(self._pod, status)

    def _observed(self) -> dict[str, int]:
        return {"observedGeneration": self.generation} if self.generation else {}

    def _condition(self, condition: KubeletCondition, now: datetime) -> dict[str, Any]:
        status = "True" if condition.value else "False"
        since = self._since.get(condition.kind)
        if since is None or since[0] != status:
            since = self._since[condition.kind] = (status, now)
        rendered = {"type": condition.kind, **self._observed(), "status": status}
        rendered["lastTransitionTime"] = timestamp(since[1])
        texts = {"reason": condition.reason, "message": condition.message}
        return rendered | {name: text for name, text in texts.items() if text}
