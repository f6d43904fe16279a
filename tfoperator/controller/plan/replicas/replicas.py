"""The replicas of a job in a plan: their states, the resulting counts in the status, and the reasons why they wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import partial
from operator import is_
from typing import Any

import msgspec

from tfoperator.api.replicas.names import MAX_RESTARTS, parse_replica_index
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.status import ReplicaStatus, WaitingReplicas, parse_indexes
from tfoperator.api.waiting import (
    REFUSALS,
    Reason,
    ReasonKind,
    look_again,
    reasons_of,
    why_it_waits,
)
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.plan.pod_ends.restart import restarts_before, restarts_in_place
from tfoperator.controller.plan.values.observed import Refusals
from tfoperator.controller.pods.manifests import DesiredReplicas
from tfoperator.kube.views.objects import Pod

GONE = "its pod is gone"
"""The cause of the restart of a replica that has no pod now."""

_MAX_NAMES = 3
_NEEDED_BY_ALL: tuple[OwnedKind, ...] = ("podgroups", "services")
_OF_ONE_REPLICA = (ReasonKind.NAME_TAKEN, ReasonKind.NAME_LEAVING)
"""Reasons that concern only one replica, and not all replicas of its type."""
_GANG_STEP = "wait until nodes have enough free resources, or request less"


class ReplicaState(Enum):
    """The state of one replica."""

    MISSING = "has no pod and needs one"
    VANISHED = "had a pod that is gone although the operator did not delete it, and needs a new pod"
    PENDING = "its pod has not started"
    RUNNING = "its pod runs"
    SUCCEEDED = "has succeeded, now or earlier; its pod may be gone"
    FAILED = "failed for good"
    RESTARTING = "its pod has failed or is being deleted, and the operator will restart the replica"
    LEAVING = (
        "its pod is terminating, which is neither a success nor a failure; the operator waits until the pod is gone"
    )


STATES_WITHOUT_POD = (ReplicaState.MISSING, ReplicaState.VANISHED)
ENDED_STATES = (ReplicaState.SUCCEEDED, ReplicaState.FAILED)


class Replica(msgspec.Struct, frozen=True, gc=False):
    """One index of a replica type in a plan."""

    index: int
    pod: Pod | None
    state: ReplicaState
    restarts: int
    """The number of the replica's restarts, including a restart that the replica needs now."""
    counted: int
    """The number of the replica's restarts without a restart that is new in this plan."""
    disruptions: int = 0
    """How many of the restarts in `restarts` were caused by a disruption."""
    cause: str = ""
    """A text about the reason why the replica restarts or has failed."""
    exit_code: int | None = None
    wait: float | None = None
    """The number of seconds until a failed pod may be replaced."""
    newly_restarting: bool = False
    """Whether the replica needs a restart that the status has not recorded yet."""
    disruption: str = ""
    """A text about the disruption that ended the replica's pod; empty if the replica restarts after a failure."""
    lost_early: bool = False
    """Whether the pod is being deleted and was never recorded in the status. This affects only the delay until
    `held_until`.
    """
    is_started: bool = False
    """Whether the loss of the pod would be a loss for the job."""
    held_until: datetime | None = None
    """When the replica's next pod is created, if disruptions come soon after one another."""
    ready: bool = False
    """Whether the replica runs with all its containers ready."""
    unaided: bool = False
    """Whether the kubelet should have restarted the replica's container, but did not."""
    by_kubelet: bool = False
    """Whether the kubelet makes the replica's new restart in place, or has made it."""
    has_returned: bool = False
    """Whether the restart had finished before the operator first observed the restart."""
    shares_cause: bool = False
    """Whether another replica restarts now for the same cause, so that only the restart of the other replica counts
    for `backoffLimit`.
    """
    avoids: tuple[str, ...] = ()
    """The names of the nodes that the replica's next pod must not use."""

    @property
    def is_newly_disrupted(self) -> bool:
        """Whether the replica restarts because of a disruption that is not counted yet."""
        return self.newly_restarting and bool(self.disruption)


def restarting(replica: Replica, so_far: int, noted: int, cause: str, *, disruption: str = "") -> Replica:
    """Return `replica` changed to RESTARTING; its pod shows `so_far` restarts, and the status has recorded `noted`."""
    return msgspec.structs.replace(
        replica,
        state=ReplicaState.RESTARTING,
        restarts=max(noted, so_far + 1),
        newly_restarting=noted <= so_far,
        cause=cause,
        disruption=disruption,
        by_kubelet=False,
    )


def restarted_at_once(replica: Replica, cause: str) -> Replica:
    """Return `replica`, which runs, changed to RESTARTING without a delay: the plan deletes its pod at once."""
    assert replica.pod is not None
    lost = restarting(replica, restarts_so_far(replica.pod), replica.counted, cause)
    return msgspec.structs.replace(lost, wait=0.0, ready=False, is_started=False)


def without_new_restart(replica: Replica) -> Replica:
    """Return the replica without its new restart.

    Use this if the restart isn't executed, or if it counts as a restart of the whole job.
    """
    disrupted = replica.is_newly_disrupted
    if replica.restarts == replica.counted and not disrupted:
        return replica
    disruptions = replica.disruptions - disrupted
    return msgspec.structs.replace(replica, restarts=replica.counted, disruptions=disruptions, shares_cause=False)


def released(replica: Replica) -> Replica:
    """Return the replica as if its present pod were no longer its pod: MISSING without a pod, else LEAVING.

    A replica that has failed for good is not changed.
    """
    if replica.state is ReplicaState.FAILED:
        return replica
    state = ReplicaState.MISSING if replica.pod is None else ReplicaState.LEAVING
    return msgspec.structs.replace(replica, state=state, ready=False, wait=None, is_started=False)


class Record(msgspec.Struct, frozen=True):
    """The record in the present status about the replicas of one type, and facts that apply to all of them."""

    started: frozenset[int] = frozenset()
    """The indexes for which the loss of the pod is a loss for the job."""
    completed: frozenset[int] = frozenset()
    """The indexes that have succeeded, including indexes beyond a size that was reduced."""
    failed: frozenset[int] = frozenset()
    """The indexes that have failed for good, including indexes beyond a size that was reduced."""
    counts: Mapping[int, int] = {}
    """The number of restarts by index."""
    disruptions: Mapping[int, int] = {}
    """How many of the restarts in `counts` were caused by a disruption, by index."""
    job_restarts: int = 0
    """How often all replicas of the job were restarted together. A pod that shows a lower number is old."""
    restarting_since: datetime | None = None
    """When the job's condition Restarting became true; None if the condition is not true."""
    in_place: bool = False
    """Whether a restart by a kubelet counts as a restart of the replica at once (see `restarts_by_kubelet`)."""


def record_of(status: ReplicaStatus, job_restarts: int, restarting_since: datetime | None, *, in_place: bool) -> Record:
    """Return the data that the status has recorded about a type; the other arguments are copied into the result."""
    counts = _read_counts(status.restart_counts) if status.restart_counts else {}
    read = _read_counts(status.disruption_counts) if status.disruption_counts else {}
    return Record(
        started=_indexes(status.started_indexes),
        completed=_indexes(status.completed_indexes),
        failed=_indexes(status.failed_indexes),
        counts=counts,
        # There can't be more disruptions than restarts.
        disruptions={index: min(read[index], counts.get(index, 0)) for index in read},
        job_restarts=job_restarts,
        restarting_since=restarting_since,
        in_place=in_place,
    )


class Beside(msgspec.Struct, frozen=True):
    """The pods of a replica type besides the present pods of its replicas."""

    surplus: tuple[tuple[int, Pod], ...] = ()
    """Pods with an index beyond the size of the type."""
    duplicates: tuple[tuple[int, Pod], ...] = ()
    """Second pods for an index."""
    outliving: tuple[Pod, ...] = ()
    """Pods of ended replicas in which containers other than `tensorflow` still run."""


NOTHING_BESIDE = Beside()


class ReplicaGroup(DesiredReplicas, frozen=True):
    """All replicas of one type, other pods of the type, and the counts that the new status will record."""

    record: Record
    """The record in the status before this plan."""
    replicas: tuple[Replica, ...]
    """The replicas in the order of their indexes."""
    beside: Beside
    """The pods of the type besides the present pods of the replicas."""
    counts: Mapping[int, int]
    """The number of restarts by index."""
    disruption_counts: Mapping[int, int]
    """How many of the restarts in `counts` were caused by a disruption, by index."""
    completed: frozenset[int]
    """The indexes that have succeeded, now or earlier."""
    started: frozenset[int]
    """The indexes for which, from now on, the loss of the pod is a loss for the job."""
    restarts: int
    """The number of restarts of all replicas, including restarts that this plan decides."""
    disruptions: int
    """How many of the restarts in `restarts` were caused by a disruption."""
    shared: int
    """How many of the restarts that this plan decides have the same cause as another restart. For `backoffLimit`, only
    the other restart counts.
    """
    succeeded: int
    """The number of wanted replicas that have succeeded."""
    failed: tuple[int, ...]
    """The indexes that have failed for good, now or earlier."""
    newly_failed: tuple[Replica, ...]
    """The replicas that have failed for good now."""
    has_new_disruption: bool
    """Whether this plan counts a new disruption."""
    may_count_in_place: bool
    """Whether the pods show a restart in place that may be new."""

    def name_of(self, replica: Replica) -> str:
        """Return the name of a replica in messages and reports, such as `worker-0`."""
        return f"{self.type.lower()}-{replica.index}"

    def changed(self, change: Callable[[Replica], Replica]) -> ReplicaGroup:
        """Return the group with `change` applied to each replica, and with new counts."""
        return self.with_replicas(tuple(map(change, self.replicas)))

    def with_replicas(self, replicas: tuple[Replica, ...]) -> ReplicaGroup:
        """Return the group with `replicas` instead of its present replicas, and with new counts."""
        if all(map(is_, replicas, self.replicas)):
            return self
        return self._with_replicas(replicas, self.completed)

    def started_over(self) -> ReplicaGroup:
        """Return the group as if the present pods were no longer the pods of its replicas.

        Replicas that failed for good stay as they are. No replica counts as completed.
        """
        return self._with_replicas(tuple(map(released, self.replicas)), frozenset())

    def _with_replicas(self, replicas: tuple[Replica, ...], completed: frozenset[int]) -> ReplicaGroup:
        counts = counts_of(replicas, self.record, completed, self.counts, self.disruption_counts)
        return msgspec.structs.replace(self, replicas=replicas, **counts)


def counts_of(
    replicas: Sequence[Replica],
    record: Record,
    completed: frozenset[int],
    restarts_before: Mapping[int, int],
    disruptions_before: Mapping[int, int],
) -> dict[str, Any]:
    """Return the counts of these replicas, by the names of the fields in ReplicaGroup.

    `completed`, `restarts_before` and `disruptions_before` cover all known indexes, including indexes beyond the
    present size.
    """
    counts, disruption_counts = dict(restarts_before), dict(disruptions_before)
    started: list[int] = []
    succeeded: list[int] = []
    failed: list[int] = []
    newly_failed: list[Replica] = []
    shared = 0
    for replica in replicas:
        index = replica.index
        if replica.shares_cause:
            shared += 1
        if replica.pod is not None or replica.restarts or index in counts:
            counts[index] = replica.restarts
        if replica.disruptions or index in disruption_counts:
            disruption_counts[index] = replica.disruptions
        if replica.is_started:
            started.append(index)
        elif replica.state is ReplicaState.SUCCEEDED:
            succeeded.append(index)
        elif replica.state is ReplicaState.FAILED:
            failed.append(index)
            if index not in record.failed:
                newly_failed.append(replica)
    return {
        "counts": counts,
        "disruption_counts": disruption_counts,
        "completed": completed.union(succeeded) if succeeded else completed,
        "started": frozenset(started),
        "restarts": sum(counts.values()),
        "disruptions": sum(disruption_counts.values()) if disruption_counts else 0,
        "shared": shared,
        "succeeded": len(succeeded),
        "failed": tuple(failed),
        "newly_failed": tuple(newly_failed),
    }


def restarted_for_one_cause(
    groups: Sequence[ReplicaGroup], restarted: Collection[tuple[ReplicaType, int]]
) -> tuple[ReplicaGroup, ...]:
    """Return the groups with the new restarts of these replicas marked so that `backoffLimit` counts only the first.

    The restarts have the same cause. The first is the first in the order of types and indexes; `shares_cause` is set
    for all others.
    """
    new = [
        (group.type, replica.index)
        for group in groups
        for replica in group.replicas
        if replica.newly_restarting and (group.type, replica.index) in restarted
    ]
    others = frozenset(new[1:])
    if not others:
        return tuple(groups)

    def shared(group: ReplicaGroup, replica: Replica) -> Replica:
        return msgspec.structs.replace(replica, shares_cause=True) if (group.type, replica.index) in others else replica

    return tuple(group.changed(partial(shared, group)) for group in groups)


class JobRestart(msgspec.Struct, frozen=True):
    """The restarts of all replicas of a job together."""

    number: int
    """The number of these restarts, including a restart that this plan decides."""
    disruptions: int = 0
    """How many of the restarts in `number` were caused by a disruption."""
    causes: tuple[str, ...] = ()
    """The cause of each replica for the restart that this plan decides; empty if this plan decides no restart."""
    old: tuple[Pod, ...] = ()
    """The pods that were created before the last of these restarts and must be deleted."""
    wait: float = 0.0
    """The number of seconds until the old pods that have ended may be deleted. Until then, the logs of these pods stay
    readable. New pods are created only afterwards.
    """
    is_disruption: bool = False
    """Whether a disruption caused the restart that this plan decides."""


def restarting_because(job: str, lost: Sequence[tuple[ReplicaGroup, Replica]]) -> str:
    """Return why the replicas in `lost` restart: failures (in the Go operator's words), disruptions, or both causes."""
    failed = [(group, replica) for group, replica in lost if not replica.disruption]
    types = ", ".join(dict.fromkeys(group.type for group, _ in failed))
    ends = some(f"{group.type}-{replica.index}: {replica.cause}" for group, replica in failed)
    taken = some(
        f"{group.type}-{replica.index} ({replica.disruption})" for group, replica in lost if replica.disruption
    )
    why = (
        f"{types} replica(s) failed ({ends})" if failed else "",
        f"a disruption (not a failure) ended replica(s): {taken}" if taken else "",
    )
    return f"job {job} is restarting because {', and '.join(filter(None, why))}."


def some(texts: Iterable[str]) -> str:
    """Return the first few of these texts, and the number of the remaining texts."""
    all_texts = [*texts]
    more = f" and {len(all_texts) - _MAX_NAMES} more" if len(all_texts) > _MAX_NAMES else ""
    return ", ".join(all_texts[:_MAX_NAMES]) + more


def has_record(status: ReplicaStatus) -> bool:
    """Return whether a type's status must be kept after the type is removed from the spec: it may be added again."""
    return bool(status.restart_counts or status.completed_indexes)


def restarts_so_far(pod: Pod) -> int:
    """Return the number of restarts of the pod's replica, according to the pod."""
    # One less than the maximum, so that the next restart differs from a restart that is recorded already.
    restarts = restarts_before(pod) + restarts_in_place(pod)
    return restarts if restarts < MAX_RESTARTS else MAX_RESTARTS - 1


def _indexes(text: str) -> frozenset[int]:
    return parse_indexes(text) if text else frozenset()


def _read_counts(counts: dict[str, int]) -> dict[int, int]:
    """Return restart counts as numbers; drop keys that are no index and counts that aren't positive."""
    read = {parse_replica_index(key): count for key, count in counts.items() if count > 0}
    return {index: min(count, MAX_RESTARTS) for index, count in read.items() if index is not None}


def waiting_reasons(
    groups: Iterable[ReplicaGroup],
    refusals: Refusals | None,
    now: datetime,
    before: Sequence[WaitingReplicas],
    *,
    gang: str | None,
) -> Iterator[tuple[str, int, Reason]]:
    """Yield type, index and reason of each replica that waits for a known reason.

    `gang` is the reason why the job's gang waits: "" if this reason is unknown, None if no gang waits. It is the reason
    for each replica without a node. `before` has the reasons in the present status. The reasons of replicas that
    restart are kept, because the cause of a restart can be observed only once. `refusals` is None if this process has
    not tried to create any object of the job yet. Then the refusals in `before` are kept.
    """
    all_before = reasons_of(before) if before else {}
    tried = refusals or {}
    for group in groups:
        of_all = next((tried[kind] for kind in _NEEDED_BY_ALL if kind in tried), None) if tried else None
        of_all = of_all or (_refusal_of_type(group, tried) if tried else None)
        for replica in group.replicas:
            if replica.ready or replica.state in ENDED_STATES:
                continue
            reason_before = all_before.get((group.type, replica.index)) if all_before else None
            refusal = tried.get((group.type, replica.index)) or of_all
            if refusals is None and reason_before is not None and reason_before.kind in REFUSALS:
                refusal = reason_before
            reason = _reason(group, replica, refusal, reason_before, now)
            if gang is not None and (reason is None or reason.kind is ReasonKind.UNSCHEDULABLE):
                placed = replica.pod is not None and replica.pod.spec.node_name
                reason = Reason(ReasonKind.GANG, gang, _GANG_STEP) if gang and not placed else None
            if reason is not None:
                yield group.type, replica.index, reason


def seconds_to_next_reason(groups: Iterable[ReplicaGroup], now: datetime) -> float | None:
    """Return after how many seconds a replica that is starting counts as waiting, if nothing else changes; None: never.

    For example, an image pull is reported as a reason only after it has taken some time.
    """
    pending = (replica.pod for group in groups for replica in group.replicas if replica.state is ReplicaState.PENDING)
    left = [look_again(pod, now) for pod in pending if pod is not None and pod.spec.node_name]
    return min((seconds for seconds in left if seconds is not None), default=None)


def _refusal_of_type(group: ReplicaGroup, refusals: Refusals) -> Reason | None:
    """Return the reason why a replica of the type could not be created.

    The reason also applies to the other missing replicas of the type, because they have the same template. After a
    refusal, the operator does not try to create the other replicas for some time.
    """
    missing = (replica.index for replica in group.replicas if replica.state in STATES_WITHOUT_POD)
    reasons = (refusals.get((group.type, index)) for index in missing)
    return next((reason for reason in reasons if reason is not None and reason.kind not in _OF_ONE_REPLICA), None)


def _reason(
    group: ReplicaGroup, replica: Replica, refusal: Reason | None, before: Reason | None, now: datetime
) -> Reason | None:
    if replica.held_until is not None:
        again = (
            "its pods were deleted or evicted repeatedly; the operator will create the next pod at "
            f"{replica.held_until:%H:%M:%S} UTC"
        )
        return Reason(ReasonKind.OTHER, again)
    without = replica.state in STATES_WITHOUT_POD
    if without and refusal is not None:
        return refusal
    if replica.state is ReplicaState.RESTARTING or (without and replica.cause):
        if before is not None and before.kind is ReasonKind.RESTARTS and not replica.newly_restarting:
            return before
        return Reason(ReasonKind.RESTARTS, f"restart ({replica.disruption or replica.cause})")
    if replica.pod is None or replica.state not in (ReplicaState.PENDING, ReplicaState.RUNNING):
        return None
    return why_it_waits(replica.pod, None, now, None if group.spec is None else group.spec.template)
