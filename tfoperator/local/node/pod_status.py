"""Renders a pod's status from the state of its containers, as the kubelet does, and reports it.

The operator decides by these fields. A local pod must look to it like a pod of a cluster, so the shapes, reasons and
rules (ready, phase, restart counts, last state) are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.kube.views.objects import (
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    timestamp,
)
from tfoperator.local.node.container_record import ContainerRecord, State
from tfoperator.local.node.node_api import NodeApi
from tfoperator.local.runtime.loopback_network import LOOPBACK
from tfoperator.local.runtime.protocol import LocalPod


class PodReporter:
    """Renders the pod's status and reports it when it has changed, and each warning once.

    Belongs to the pod's worker; only `warn_once` may also be called by the runtime's threads.
    """

    def __init__(self, pod: LocalPod, api: NodeApi, clock: Clock) -> None:
        self.pod_ip = ""
        """The pod's address; empty until the pod has an address."""
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
        """Report the state of the pod and of its containers."""
        now = self._clock.now()
        # As with a kubelet, the start time is the time of the first report: while a pod waits for GPUs, it is not on
        # the node yet.
        self._started = self._started or now
        initialised = all(record.initialised for record in init)
        finished = phase in ("Succeeded", "Failed")
        serving = [*main, *(record for record in init if record.sidecar)]
        ready = not finished and bool(main) and all(isinstance(r.state, ContainerStateRunning) for r in serving)
        why = "" if ready else ("PodCompleted" if phase == "Succeeded" else "ContainersNotReady")
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": [
                self._condition("PodScheduled", True, now),
                self._condition("Initialized", initialised, now, "" if initialised else "ContainersNotInitialized"),
                self._condition("ContainersReady", ready, now, why),
                self._condition("Ready", ready, now, why),
            ],
            "hostIP": LOOPBACK,
            "startTime": timestamp(self._started),
            "containerStatuses": [_container(record) for record in main],
            "qosClass": "BestEffort",
        }
        if self.pod_ip:
            status |= {"podIP": self.pod_ip, "podIPs": [{"ip": self.pod_ip}]}
        if init:
            status["initContainerStatuses"] = [_container(record, init=True) for record in init]
        if reason:
            status["reason"] = reason
        if message:
            status["message"] = message
        self._report(status)

    def unschedulable(self, message: str, details: str) -> None:
        """Report that the pod does not fit on the node, as a scheduler does."""
        scheduled = self._condition("PodScheduled", False, self._clock.now(), "Unschedulable") | {"message": message}
        self._report({"phase": "Pending", "conditions": [scheduled], "qosClass": "BestEffort"})
        self.warn_once("FailedScheduling", f"{message} ({details})")

    def warn_once(self, reason: str, message: str) -> None:
        """Record a warning about the pod, unless the same was recorded before."""
        if message not in self._warned:
            self._warned.add(message)
            self._api.warn(self._pod, reason, message)

    def _report(self, status: dict[str, object]) -> None:
        if status != self._reported:
            self._reported = status
            self._api.report(self._pod, status)

    def _condition(self, kind: str, value: bool, now: datetime, reason: str = "") -> dict[str, Any]:
        status = "True" if value else "False"
        since = self._since.get(kind)
        if since is None or since[0] != status:
            since = self._since[kind] = (status, now)
        condition = {"type": kind, "status": status, "lastTransitionTime": timestamp(since[1])}
        if reason:
            condition["reason"] = reason
        return condition


_STATES = {ContainerStateWaiting: "waiting", ContainerStateRunning: "running", ContainerStateTerminated: "terminated"}


def _container(record: ContainerRecord, *, init: bool = False) -> dict[str, Any]:
    running = isinstance(record.state, ContainerStateRunning)
    return {
        "name": record.container.name,
        "image": record.container.image,
        "imageID": "",
        "ready": record.succeeded if init and not record.sidecar else running,
        "started": running,
        "restartCount": record.restarts,
        "state": _state(record.state),
        "lastState": _state(record.last) if record.last else {},
    }


def _state(state: State) -> dict[str, Any]:
    if isinstance(state, ContainerStateTerminated):
        # A container that failed to start gets both times, too: clients show a missing time as the year 1.
        state = msgspec.structs.replace(state, started_at=state.started_at or state.finished_at)
    members = msgspec.to_builtins(state, builtin_types=(datetime,)).items()
    said = {name: timestamp(value) if isinstance(value, datetime) else value for name, value in members if value != ""}
    return {_STATES[type(state)]: said}
