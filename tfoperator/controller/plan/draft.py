"""A plan in the making: collects what to do, and makes the plan of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from tfoperator.api.names import ANNOTATION_STOPPED, replica_of
from tfoperator.api.v1.types import TFJobStatus
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.plan.actions import (
    Action,
    Create,
    Delete,
    DeleteReason,
    LookAtLog,
    Patch,
    Phase,
    PhaseName,
    Plan,
    PlannedEvent,
    StopReason,
    TakeStacks,
)
from tfoperator.controller.plan.conditions import Conditions
from tfoperator.controller.plan.observed import Observed, PlanOptions
from tfoperator.controller.plan.postponing import postpone
from tfoperator.controller.plan.restart import overdue_seconds
from tfoperator.controller.plan.status import is_worth_writing
from tfoperator.kube.objects import HasMetadata, Pod

MAX_REQUEUE = 3600.0
"""Seconds. A farther moment is approached in steps: wall clocks get corrected, and timers run on another clock."""

_PODS_NEED = frozenset({PhaseName.POD_GROUP, PhaseName.NETWORK})

_STOP_AFTER = 1
"""Seconds, `spec.activeDeadlineSeconds` of a pod that is stopped: the least that API servers accept."""


class Draft:
    """Collects the parts of one plan. Nothing that terminates already is deleted or stopped again."""

    def __init__(self, observed: Observed, now: datetime, options: PlanOptions) -> None:
        self.observed = observed
        self.job = observed.job
        self.now = now
        self.options = options
        self.conditions = Conditions(observed.job.status.conditions, now)
        self.gang_waits: str | None = None  # what the job's pods wait for together, "" if unknown; None: they don't
        self.gang_is_stuck = False  # whether a scheduler has looked and found no room, which is worth an event
        self.absent: list[str] = []
        self.tensorboard_status = observed.job.status.tensor_board
        # A service before its pod, by their common name.
        self._replicas: defaultdict[str, list[Action]] = defaultdict(list)
        self._replaces = False  # whether one of them deletes its predecessor first
        self._deletions: dict[str, Delete] = {}  # by UID
        self._stops: dict[str, Patch] = {}  # by UID
        self._pod_group: list[Action] = []
        self._network: list[Action] = []
        self._tensorboard: list[Action] = []
        self._events: list[PlannedEvent] = []
        self._requeue: float | None = None
        self._status_first = False
        self._looks: list[LookAtLog] = []
        self._stacks: list[TakeStacks] = []

    @property
    def key(self) -> str:
        """`namespace/name` of the job."""
        return self.job.metadata.key

    def event(self, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Add an event about the job."""
        self._events.append(PlannedEvent(type_, reason, message))

    def requeue_in(self, seconds: float) -> None:
        """Plan again after at most this long."""
        seconds = min(max(seconds, 0.0), MAX_REQUEUE)
        self._requeue = seconds if self._requeue is None else min(self._requeue, seconds)

    def write_status_first(self) -> None:
        """Have the status be durable before anything is done, whatever that is."""
        self._status_first = True

    def create_replica_object(self, creation: Create) -> None:
        """Create a pod or a service of a replica; the service first, since both have the same name."""
        self._replicas[creation.name].append(creation)

    def replace(self, pod: Pod, creation: Create) -> None:
        """Delete a failed pod, and create its successor if that succeeds: both have the same name."""
        deletion = _deletion("pods", pod, DeleteReason.RESTART)
        self._replicas[creation.name] += (deletion, creation)
        self._replaces = True

    def change_pod_group(self, action: Create | Patch) -> None:
        """Create or change the job's PodGroup, before any pod is created."""
        self._pod_group.append(action)

    def create_job_service(self, creation: Create) -> None:
        """Create the one service of all replicas, before any pod is created."""
        self._network.append(creation)

    def change_tensorboard(self, action: Action) -> None:
        """Do something about the job's TensorBoard, whatever becomes of the rest."""
        self._tensorboard.append(action)

    def delete(
        self,
        kind: OwnedKind,
        owned: HasMetadata | None,
        reason: DeleteReason,
        *,
        grace: int | None = None,
        as_seen: bool = False,
    ) -> None:
        """Delete an object, unless there is none or it terminates already; with `grace` it is deleted in any case.

        With `as_seen` only if it is what the cache shows: a pod that is no longer pending stays.
        """
        if owned is None or (owned.metadata.deletion_timestamp is not None and grace is None):
            return
        self._deletions[owned.metadata.uid] = _deletion(kind, owned, reason, grace=grace, as_seen=as_seen)

    def stop(self, pod: Pod, reason: StopReason) -> None:
        """Have the pod's kubelet end it by SIGTERM and its grace period, unless it terminates or is stopped already.

        Object and log stay. A deadline is the one member of a running pod's spec with which an API server lets anybody
        end it; it can be lowered and never raised. The resourceVersion keeps a lagging cache from stopping a pod, and
        telling of it, twice.
        """
        meta, deadline = pod.metadata, pod.spec.active_deadline_seconds
        if meta.deletion_timestamp is not None or (deadline is not None and deadline <= _STOP_AFTER):
            return
        self._stops[meta.uid] = Patch(
            kind="pods",
            name=meta.name,
            uid=meta.uid,
            replica=replica_of(meta.labels),
            required=False,
            body={
                "metadata": {"resourceVersion": meta.resource_version, "annotations": {ANNOTATION_STOPPED: reason}},
                "spec": {"activeDeadlineSeconds": _STOP_AFTER},
            },
            spec_field="spec.runPolicy.cleanPodPolicy",
        )

    def look_at_logs(self, pods: Iterable[Pod], newer_than: datetime) -> None:
        """Have the newest lines of these logs looked up, one after the other, up to one that is newer."""
        self._looks += (
            LookAtLog(kind="pods", name=pod.metadata.name, required=False, pod=pod, newer_than=newer_than)
            for pod in pods
        )

    def take_stacks(self, pods: Iterable[Pod]) -> None:
        """Have the stacks of all threads of these pods kept."""
        self._stacks += (TakeStacks(kind="pods", name=pod.metadata.name, required=False, pod=pod) for pod in pods)

    def free_lost_pods(self) -> None:
        """Delete by force what terminates on a lost node past its time: no kubelet will ever confirm its end."""
        for pod in self.observed.pods:
            if pod.metadata.deletion_timestamp is None:
                continue
            overdue = overdue_seconds(pod, self.now, self.options)
            if overdue is None:
                continue
            if overdue >= 0:
                self.delete("pods", pod, DeleteReason.NODE_LOST, grace=0)
            else:
                self.requeue_in(-overdue)

    def delete_job(self) -> None:
        """Delete the job, which takes everything that it owns with it; and do nothing else.

        Only as it was seen: somebody may have given it more time, which the cache doesn't show yet.
        """
        meta = self.job.metadata
        deletion = Delete(
            kind="tfjobs",
            name=meta.name,
            uid=meta.uid,
            reason=DeleteReason.EXPIRED,
            resource_version=meta.resource_version,
        )
        self._deletions = {meta.uid: deletion}

    def finish(self, status: TFJobStatus) -> Plan:
        """The plan, with `status` as the desired status."""
        if status.tensor_board != self.tensorboard_status:
            status = msgspec.structs.replace(status, tensor_board=self.tensorboard_status)
        write = is_worth_writing(self.job.status, status)
        plan = Plan(
            status=status,
            phases=self._phases(),
            write_status_first=write and bool(self._status_first or self._deletions or self._stops or self._replaces),
            write_status=write,
            events=tuple(self._events),
            requeue_after=self._requeue,
            absent=tuple(self.absent),
            transitions=self.conditions.became_true() if write else frozenset(),
        )
        return postpone(plan, self.observed, self.options)

    def _phases(self) -> tuple[Phase, ...]:
        phases = (
            _independent(PhaseName.DELETIONS, self._deletions.values()),
            _independent(PhaseName.STOPS, self._stops.values()),
            # A gang scheduler would not know what to do with pods whose PodGroup is not there.
            _independent(PhaseName.POD_GROUP, self._pod_group),
            # Services first: no process starts before its own name can resolve.
            _independent(PhaseName.NETWORK, self._network),
            Phase(
                PhaseName.REPLICAS,
                tuple(map(tuple, self._replicas.values())),
                slow_start=True,
                needs=_PODS_NEED,
            ),
            _independent(PhaseName.TENSORBOARD, self._tensorboard),
            _independent(PhaseName.LOOKS, self._looks),
            _independent(PhaseName.STACKS, self._stacks),
        )
        return tuple(phase for phase in phases if phase.chains)


def _deletion(
    kind: OwnedKind, owned: HasMetadata, reason: DeleteReason, *, grace: int | None = None, as_seen: bool = False
) -> Delete:
    meta = owned.metadata
    return Delete(
        kind=kind,
        name=meta.name,
        uid=meta.uid,
        replica=replica_of(meta.labels),
        reason=reason,
        resource_version=meta.resource_version if as_seen else "",
        grace_period_seconds=grace,
    )


def _independent(name: PhaseName, actions: Iterable[Action]) -> Phase:
    return Phase(name, tuple((action,) for action in actions))
