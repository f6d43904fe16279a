"""A plan under construction: collects actions, and makes the plan from them.

Two kinds of actions are left for a later plan, which includes them because it is made from the whole observed state: a
crash in between loses nothing.

*Actions on stale caches.* A creation that no cache shows yet would be repeated, and a pod that was deleted and is not
shown so would be taken for alive.

*Deletions before logs.* A pod whose log is not in the archive yet stays for now, and its log is requested, at most for
the archive's timeout: no worker thread waits for a log. A lost node doesn't answer, and a node that is gone has its
pods' logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

import msgspec

from tfoperator.api.names import ANNOTATION_STOPPED, replica_of
from tfoperator.api.replica_pods import STOP_DEADLINE, is_ending
from tfoperator.api.v1.reasons import EventType, JobReason
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.plan.actions import (
    NO_LOOKS,
    Action,
    Create,
    Delete,
    DeleteReason,
    Looks,
    Patch,
    Phase,
    PhaseName,
    Plan,
    PlannedEvent,
    StopReason,
)
from tfoperator.controller.plan.conditions import Conditions, is_finished
from tfoperator.controller.plan.observed import Observed, PlanOptions, Unseen
from tfoperator.controller.plan.status import is_worth_writing, seconds_until_due
from tfoperator.kube.objects import HasMetadata, Pod

MAX_REQUEUE = 3600.0
"""Seconds. A later time is approached in steps: wall clocks get corrected, and timers run on another clock."""

_NEEDED_BY_PODS = frozenset({PhaseName.POD_GROUP, PhaseName.NETWORK})


class Draft:
    """Collects the parts of one plan. Nothing that terminates already is deleted or stopped again."""

    def __init__(self, observed: Observed, now: datetime, options: PlanOptions) -> None:
        self.observed = observed
        self.job = observed.job
        self.now = now
        self.options = options
        self.conditions = Conditions(observed.job.status, now)
        self.gang_waits: str | None = None  # the common reason why the job's pods wait, "" if unknown; None: they don't
        self.gang_is_stuck = False  # whether a scheduler has found no room, which is worth an event
        self.absent: list[str] = []
        self.read_logs: tuple[Pod, ...] = ()  # up to a line that is newer than the following
        self.newer_than: datetime | None = None
        self.stacks: list[Pod] = []  # the pods whose stacks are to be kept
        self.tensorboard_status = observed.job.status.tensor_board
        self._added: defaultdict[PhaseName, list[Action]] = defaultdict(list)  # independent of each other
        # A service before its pod, by their common name.
        self._replicas: defaultdict[str, list[Action]] = defaultdict(list)
        self._awaited = observed.unseen.awaited
        self._unsure: set[PhaseName] = set()  # phases with a creation deferred while similar changes are awaited
        self._awaits_pods = False  # whether such a creation is a pod's
        self._unkept = frozenset() if observed.unkept_logs is None else observed.unkept_logs.pods
        self._logs: set[str] = set()  # UIDs of pods that stay until their logs are kept
        self._deletions: dict[str, Delete] = {}  # by UID
        self._stops: dict[str, Patch] = {}  # by UID
        self._events: list[PlannedEvent] = []
        self._requeue: float | None = None
        self._status_first = False  # whether the status must be durable before anything else is done

    @property
    def key(self) -> str:
        """`namespace/name` of the job."""
        return self.job.metadata.key

    def event(self, reason: JobReason, message: str, *, kind: EventType | None = None) -> None:
        """Add an event about the job; `kind` is its type where that is not the reason's own."""
        self._events.append(PlannedEvent(kind or reason.event_type, reason.value, message))

    def requeue_in(self, seconds: float) -> None:
        """Plan again after at most this long."""
        seconds = min(max(seconds, 0.0), MAX_REQUEUE)
        self._requeue = seconds if self._requeue is None else min(self._requeue, seconds)

    def write_status_first(self) -> None:
        """Require that the status be durable before any action is carried out."""
        self._status_first = True

    def create_replica_object(self, creation: Create) -> None:
        """Create a pod or a service of a replica; the service first, since both have the same name."""
        if not self._waits(creation, PhaseName.REPLICAS) and self._unsure.isdisjoint(_NEEDED_BY_PODS):
            self._replicas[creation.name].append(creation)

    def replace(self, pod: Pod, creation: Create) -> None:
        """Delete a failed pod, and create its successor if that succeeds: both have the same name."""
        self._status_first = True
        if not self._waits(creation, PhaseName.REPLICAS) and self._unsure.isdisjoint(_NEEDED_BY_PODS):
            if pod.metadata.uid in self._unkept:
                self._logs.add(pod.metadata.uid)
            else:
                self._replicas[creation.name] += (_deletion("pods", pod, DeleteReason.RESTART), creation)

    def add(self, phase: PhaseName, action: Action) -> None:
        """Add an action that is independent of the others of its phase: on the PodGroup, the one service of all
        replicas, or the TensorBoard.
        """
        if not self._waits(action, phase):
            self._added[phase].append(action)

    def delete(
        self,
        kind: OwnedKind,
        owned: HasMetadata | None,
        reason: DeleteReason,
        *,
        grace: int | None = None,
        as_seen: bool = False,
    ) -> None:
        """Delete an object, unless there is none or it terminates already; with `grace` delete it in any case.

        With `as_seen`, delete it only if it is as the cache shows it: a pod that is no longer pending stays.
        """
        if owned is None or (owned.metadata.deletion_timestamp is not None and grace is None):
            return
        self._status_first = True
        deletion = _deletion(kind, owned, reason, grace=grace, as_seen=as_seen)
        if self._waits(deletion, PhaseName.DELETIONS):
            return
        if deletion.uid in self._unkept and kind == "pods" and reason is not DeleteReason.NODE_LOST:
            self._logs.add(deletion.uid)
        else:
            self._deletions[deletion.uid] = deletion

    def stop(self, pod: Pod, reason: StopReason) -> None:
        """Have the pod's kubelet end it by SIGTERM and its grace period, unless it is deleted or stopped already.

        Object and log stay. A deadline is the one member of a running pod's spec with which an API server lets a client
        end it; it can be lowered and never raised. The resourceVersion keeps a lagging cache from stopping a pod, and
        reporting that, twice.
        """
        if self.ends(pod):
            return
        meta = pod.metadata
        self._status_first = True
        self._stops[meta.uid] = Patch(
            kind="pods",
            name=meta.name,
            uid=meta.uid,
            replica=replica_of(meta.labels),
            required=False,
            body={
                "metadata": {"resourceVersion": meta.resource_version, "annotations": {ANNOTATION_STOPPED: reason}},
                "spec": {"activeDeadlineSeconds": STOP_DEADLINE},
            },
            spec_field="spec.runPolicy.cleanPodPolicy",
        )

    def ends(self, pod: Pod) -> bool:
        """Return whether the pod is deleted or stopped, by this plan or before."""
        uid = pod.metadata.uid
        return is_ending(pod) or uid in self._deletions or uid in self._logs or uid in self._stops

    def delete_job(self) -> None:
        """Delete the job, which takes all of its pods with it, once their logs are kept; and do nothing else.

        Only as observed: a user may have extended its time, which the cache doesn't show yet.
        """
        meta = self.job.metadata
        deletion = Delete(
            kind="tfjobs",
            name=meta.name,
            uid=meta.uid,
            reason=DeleteReason.EXPIRED,
            resource_version=meta.resource_version,
        )
        if self._waits(deletion, PhaseName.DELETIONS):
            return
        self._logs = {pod.metadata.uid for pod in self.observed.pods} & self._unkept
        if not self._logs:
            self._deletions[meta.uid] = deletion

    def finish(self, status: TFJobStatus) -> Plan:
        """Return the plan, with `status` as the desired status."""
        comparison = self.observed.comparison
        if self.absent and self._awaits_pods:
            # A pod that the cache does not show yet must not be counted as lost: delay everything until it does.
            plan = Plan(status=self.job.status)
        else:
            plan = self._plan(status)
        if comparison is None:
            return plan
        status = msgspec.structs.replace(plan.status, last_reconcile_time=comparison.time.replace(microsecond=0))
        return msgspec.structs.replace(plan, status=status, write_status=plan.write_status or comparison.write)

    def _plan(self, status: TFJobStatus) -> Plan:
        if status.tensor_board != self.tensorboard_status:
            status = msgspec.structs.replace(status, tensor_board=self.tensorboard_status)
        if self._logs and self.observed.unkept_logs is not None:
            self.requeue_in(self.observed.unkept_logs.timeout)
        keep = tuple(pod for pod in self.observed.pods if pod.metadata.uid in self._logs) if self._logs else ()
        phases, write = self._phases(), is_worth_writing(self.job.status, status)
        transitions = self.conditions.became_true() if write else frozenset()
        if write and not self._status_first and not self._events:
            left = seconds_until_due(self.observed, status, transitions, self.options, acts=bool(phases))
            if left > 0:
                write, transitions = False, frozenset()
                self.requeue_in(left)
        return Plan(
            status=status,
            phases=phases,
            looks=Looks(keep, self.read_logs, self.newer_than, tuple(self.stacks)),
            write_status_first=write and self._status_first,
            write_status=write,
            events=tuple(self._events),
            requeue_after=self._requeue,
            absent=tuple(self.absent),
            transitions=transitions,
        )

    def _waits(self, action: Action, phase: PhaseName) -> bool:
        """Return whether objects of its kind are still to appear or vanish; a patch of an older version is refused."""
        if not self._awaited or not isinstance(action, Create | Delete):
            return False
        replica_type = action.replica[0].lower() if action.replica is not None else ""
        awaited = (replica_type, action.kind) in self._awaited
        if awaited and isinstance(action, Create):
            self._unsure.add(phase)
            self._awaits_pods |= action.kind == "pods"
        return awaited

    def _phases(self) -> tuple[Phase, ...]:
        made: dict[PhaseName, Iterable[Action]] = {
            PhaseName.DELETIONS: self._deletions.values(),
            PhaseName.STOPS: self._stops.values(),
            **self._added,
        }
        phases = {name: Phase(name, tuple((action,) for action in actions)) for name, actions in made.items()}
        replicas = tuple(map(tuple, self._replicas.values()))
        phases[PhaseName.REPLICAS] = Phase(PhaseName.REPLICAS, replicas, slow_start=True, needs=_NEEDED_BY_PODS)
        return tuple(phases[name] for name in PhaseName if name in phases and phases[name].chains)


def is_last_plan(plan: Plan, observed: Observed) -> bool:
    """Return whether the job rests once this plan is carried out: until something else changes, no other plan follows.

    A new status alone leads to no other plan, with three exceptions: the job ends with it, so that its time to live
    begins; Kueue drives the job; or the replicas are watched, where the status decides which of them stalls or is slow.
    """
    if plan.phases or plan.looks != NO_LOOKS or plan.requeue_after is not None or observed.unseen != Unseen():
        return False
    if not plan.write_status:
        return True
    watched = observed.job.spec.policy.progress_deadline_seconds is not None or observed.reported is not None
    return not (watched or observed.gate is not None or is_finished(plan.status.conditions))


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
