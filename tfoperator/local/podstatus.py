"""A pod's status, rendered as the kubelet renders it from what is known of its containers. Pure but for its memory
of when each condition last changed.

The operator decides by these fields and must not be able to tell a local pod from a real one, so the shapes, reasons
and rules (ready, phase, restart counts, last state) are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tfoperator.local.expansion import POD_IP
from tfoperator.local.logs import LogFile
from tfoperator.local.podview import Container
from tfoperator.local.runtime import ContainerProcess

__all__ = ["ContainerRecord", "Running", "StatusRenderer", "Terminated", "Waiting", "timestamp"]


@dataclass(frozen=True)
class Waiting:
    """Not started yet, or between two attempts."""

    reason: str = "ContainerCreating"
    message: str = ""


@dataclass(frozen=True)
class Running:
    """Started and not ended."""

    since: datetime


@dataclass(frozen=True)
class Terminated:
    """Ended. `started` is None if it never really began."""

    exit_code: int
    reason: str
    started: datetime | None
    finished: datetime
    message: str = ""


@dataclass
class ContainerRecord:
    """What the agent knows of one container of a pod. Belongs to the pod's worker thread."""

    container: Container
    state: Waiting | Running | Terminated = field(default_factory=Waiting)
    last: Terminated | None = None
    restarts: int = 0
    started_once: bool = False
    process: ContainerProcess | None = None
    log: LogFile | None = None
    failures: int = 0  # consecutive ends, for the back-off
    next_start: float | None = 0.0  # on the monotonic clock; None while it runs or when it is over
    started_monotonic: float = 0.0

    @property
    def over(self) -> bool:
        """Whether it has ended and won't be started again."""
        return self.next_start is None and self.process is None


class StatusRenderer:
    """Renders the status of one pod. Not thread-safe: belongs to the pod's worker."""

    def __init__(self, started: datetime) -> None:
        self.pod_ip = ""
        """The pod's address, once it has one."""
        self._started = started
        self._since: dict[str, tuple[str, datetime]] = {}

    def render(
        self,
        phase: str,
        init: Sequence[ContainerRecord],
        main: Sequence[ContainerRecord],
        now: datetime,
        *,
        reason: str = "",
        message: str = "",
    ) -> dict[str, Any]:
        """The whole `status` of the pod."""
        initialised = all(isinstance(r.state, Terminated) and r.state.exit_code == 0 for r in init)
        finished = phase in ("Succeeded", "Failed")
        ready = not finished and bool(main) and all(isinstance(r.state, Running) for r in main)
        why = "" if ready else ("PodCompleted" if phase == "Succeeded" else "ContainersNotReady")
        status: dict[str, Any] = {
            "phase": phase,
            "conditions": [
                self._condition("PodScheduled", True, now),
                self._condition("Initialized", initialised, now, "" if initialised else "ContainersNotInitialized"),
                self._condition("ContainersReady", ready, now, why),
                self._condition("Ready", ready, now, why),
            ],
            "hostIP": POD_IP,
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
        return status

    def _condition(self, kind: str, value: bool, now: datetime, reason: str = "") -> dict[str, Any]:
        status = "True" if value else "False"
        known = self._since.get(kind)
        if known is None or known[0] != status:
            known = self._since[kind] = (status, now)
        condition = {"type": kind, "status": status, "lastTransitionTime": timestamp(known[1])}
        if reason:
            condition["reason"] = reason
        return condition


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC, whole seconds: the form of all times in the Kubernetes API."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _container(record: ContainerRecord, *, init: bool = False) -> dict[str, Any]:
    running = isinstance(record.state, Running)
    done = init and isinstance(record.state, Terminated) and record.state.exit_code == 0
    return {
        "name": record.container.name,
        "image": record.container.image,
        "imageID": "",
        "ready": done if init else running,
        "started": running,
        "restartCount": record.restarts,
        "state": _state(record.state),
        "lastState": _state(record.last) if record.last else {},
    }


def _state(state: Waiting | Running | Terminated) -> dict[str, Any]:
    if isinstance(state, Running):
        return {"running": {"startedAt": timestamp(state.since)}}
    if isinstance(state, Waiting):
        waiting = {"reason": state.reason}
        if state.message:
            waiting["message"] = state.message
        return {"waiting": waiting}
    terminated: dict[str, Any] = {
        "exitCode": state.exit_code,
        "reason": state.reason,
        "finishedAt": timestamp(state.finished),
    }
    if state.started is not None:
        terminated["startedAt"] = timestamp(state.started)
    if state.message:
        terminated["message"] = state.message
    return {"terminated": terminated}
