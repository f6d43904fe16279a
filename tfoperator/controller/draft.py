"""A plan in the making: collects what to do, and derives from it what has to be written, when, and first."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from tfoperator.api.names import replica_of
from tfoperator.api.v1.types import ReplicaType, TFJobStatus
from tfoperator.controller.actions import (
    BoardAction,
    DeleteReason,
    Observed,
    Plan,
    PlannedEvent,
    PlanOptions,
    PodCreate,
    PodDelete,
    PodGroupCreate,
    PodGroupDelete,
    PodGroupPatch,
    ServiceCreate,
    ServiceDelete,
)
from tfoperator.controller.conditions import Conditions
from tfoperator.controller.restart import overdue_seconds
from tfoperator.controller.status import is_worth_writing
from tfoperator.kube.objects import Pod, Service

__all__ = ["MAX_REQUEUE", "Draft"]

MAX_REQUEUE = 3600.0
"""Seconds. A farther moment is approached in steps: wall clocks get corrected, and timers run on another clock."""


class Draft:
    """Collects the parts of one plan. Nothing that terminates already is deleted again."""

    def __init__(self, observed: Observed, now: datetime, options: PlanOptions) -> None:
        self.observed = observed
        self.job = observed.job
        self.now = now
        self.options = options
        self.conditions = Conditions(observed.job.status.conditions, now)
        self.create_pods: list[PodCreate] = []
        self.create_services: list[ServiceCreate] = []
        self.create_pod_group: PodGroupCreate | None = None
        self.patch_pod_group: PodGroupPatch | None = None
        self.gang_waits: str | None = None  # what the job's pods wait for together, "" if unknown; None: they don't
        self.gang_is_stuck = False  # whether a scheduler has looked and found no room, which is worth an event
        self.absent: list[str] = []
        self.board: list[BoardAction] = []
        self.board_status = observed.job.status.tensor_board
        self.delete_job = False
        self._delete_pods: dict[str, PodDelete] = {}
        self._delete_services: list[ServiceDelete] = []
        self._delete_pod_group: PodGroupDelete | None = None
        self._events: list[PlannedEvent] = []
        self._requeue: float | None = None

    @property
    def key(self) -> str:
        """`namespace/name` of the job."""
        return f"{self.job.metadata.namespace}/{self.job.metadata.name}"

    def event(self, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Add an event about the job."""
        self._events.append(PlannedEvent(type_, reason, message))

    def requeue_in(self, seconds: float) -> None:
        """Plan again after at most this long."""
        seconds = min(max(seconds, 0.0), MAX_REQUEUE)
        self._requeue = seconds if self._requeue is None else min(self._requeue, seconds)

    def delete_pod(self, pod: Pod, reason: DeleteReason) -> None:
        """Delete a pod with its own grace period, unless it terminates already."""
        if pod.metadata.deletion_timestamp is None:
            self._add_pod_deletion(pod, reason, None)

    def delete_service(self, service: Service, reason: DeleteReason) -> None:
        """Delete a service, unless it terminates already."""
        meta = service.metadata
        if meta.deletion_timestamp is None:
            replica_type, index = _replica(meta.labels)
            self._delete_services.append(ServiceDelete(meta.name, meta.uid, replica_type, index, reason))

    def delete_pod_group(self, reason: DeleteReason) -> None:
        """Delete the job's PodGroup, if it has one that does not terminate already."""
        group = self.observed.pod_group
        if group is not None and group.metadata.deletion_timestamp is None:
            self._delete_pod_group = PodGroupDelete(group.metadata.name, group.metadata.uid, reason)

    def free_lost_pods(self) -> None:
        """Delete by force what terminates on a lost node past its time: no kubelet will ever confirm its end."""
        for pod in self.observed.pods:
            if pod.metadata.deletion_timestamp is None:
                continue
            overdue = overdue_seconds(pod, self.now, self.options)
            if overdue is None:
                continue
            if overdue >= 0:
                self._add_pod_deletion(pod, DeleteReason.NODE_LOST, 0)
            else:
                self.requeue_in(-overdue)

    def finish(self, status: TFJobStatus) -> Plan:
        """The plan, with `status` as the desired status."""
        if status.tensor_board != self.board_status:
            status = msgspec.structs.replace(status, tensor_board=self.board_status)
        write = is_worth_writing(self.job.status, status)
        deletes = bool(self._delete_pods or self._delete_services or self._delete_pod_group)
        return Plan(
            status=status,
            delete_job=self.delete_job,
            write_status_first=write and deletes,
            delete_pods=tuple(self._delete_pods.values()),
            delete_services=tuple(self._delete_services),
            delete_pod_group=self._delete_pod_group,
            create_pod_group=self.create_pod_group,
            patch_pod_group=self.patch_pod_group,
            create_services=tuple(self.create_services),
            create_pods=tuple(self.create_pods),
            board=tuple(self.board),
            write_status=write,
            events=tuple(self._events),
            requeue_after=self._requeue,
            absent=tuple(self.absent),
            transitions=self.conditions.became_true() if write else frozenset(),
        )

    def _add_pod_deletion(self, pod: Pod, reason: DeleteReason, grace: int | None) -> None:
        meta = pod.metadata
        replica_type, index = _replica(meta.labels)
        self._delete_pods[meta.uid] = PodDelete(meta.name, meta.uid, replica_type, index, grace, reason)


def _replica(labels: dict[str, str]) -> tuple[ReplicaType, int] | tuple[None, None]:
    return replica_of(labels) or (None, None)
