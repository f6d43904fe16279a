"""The replicas of a job in a plan: the state of each, its effect on the counts, and the reason why it waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum

import msgspec

from tfoperator.api.names import MAX_RESTARTS, parse_replica_index
from tfoperator.api.v1.status import ReplicaStatus, parse_indexes
from tfoperator.api.v1.types import ReplicaSpec, ReplicaType
from tfoperator.api.waiting import (
    Reason,
    ReasonKind,
    is_refusal_text,
    look_again,
    reasons_in,
    why_it_waits,
)
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.plan.observed import Refusals
from tfoperator.controller.plan.restart import restarts_before, restarts_in_place
from tfoperator.controller.pods.manifests import DesiredReplicas
from tfoperator.kube.objects import Pod

GONE = "its pod is gone"
"""The cause of the restart of a replica that has no pod now."""

_MAX_NAMES = 3
_NEEDED_BY_ALL: tuple[OwnedKind, ...] = ("podgroups", "services")
_OF_ONE_REPLICA = (ReasonKind.NAME_TAKEN, ReasonKind.NAME_LEAVING)
"""Reasons that say nothing about the other replicas of the type."""
_GANG_STEP = "wait for room, or ask for less"
_RESTART = "restart ("
"""How the reason of a replica begins that is on its way to a new pod."""


class ReplicaState(Enum):
    """The state of one replica."""

    MISSING = "has no pod and needs one"
    VANISHED = "had a pod that is gone without our doing, and needs a new one"
    PENDING = "its pod has not started"
    RUNNING = "its pod runs"
    SUCCEEDED = "finished well, now or earlier; its pod may be gone"
    FAILED = "failed for good"
    RESTARTING = "its pod has failed or is being taken away, and it will be started again"
    LEAVING = "its pod terminates, which counts for nothing; it waits until the pod is gone"


STATES_WITHOUT_POD = (ReplicaState.MISSING, ReplicaState.VANISHED)
ENDED_STATES = (ReplicaState.SUCCEEDED, ReplicaState.FAILED)


class Replica(msgspec.Struct):
    """One index of a replica type. Built for one plan and not shared; `wait` is seconds until a failed pod's restart.

    `restarts` is the number of the replica's restarts, the restart that it needs now included; `counted` leaves that
    one out if it is new. `disruption` names what took its pod; it is empty if its restart follows on a failure. Its
    next pod is made at `held_until`, where disruptions come soon after one another. `lost_early`: its pod is deleted
    before the status showed it, which counts for nothing but such a delay.
    `ready`: it runs with all its containers ready. `unaided`: its kubelet should have restarted its container, and did
    not. Its next pod `avoids` these nodes. `by_kubelet`: its kubelet makes its new restart, or has made it.
    """

    index: int
    pod: Pod | None
    state: ReplicaState
    restarts: int
    counted: int
    cause: str = ""
    exit_code: int | None = None
    wait: float | None = None
    newly_restarting: bool = False
    disruption: str = ""
    lost_early: bool = False
    held_until: datetime | None = None
    ready: bool = False
    unaided: bool = False
    by_kubelet: bool = False
    avoids: tuple[str, ...] = ()

    def restart(self, so_far: int, noted: int, cause: str, *, disruption: str = "") -> None:
        """Restart it after `so_far` restarts, of which the status has recorded `noted`."""
        self.state = ReplicaState.RESTARTING
        self.restarts = max(noted, so_far + 1)
        self.newly_restarting = noted <= so_far
        self.cause, self.disruption = cause, disruption
        self.by_kubelet = False

    @property
    def is_newly_disrupted(self) -> bool:
        """Whether it restarts because of a disruption that is not counted yet."""
        return self.newly_restarting and bool(self.disruption)


class ReplicaGroup(DesiredReplicas):
    """All replicas of one type: `replicas` in index order, and the pods that belong to none of them.

    `completed` are the indexes known to have succeeded, and `failed_before` those that the status says have failed for
    good: both have indexes beyond a size that was reduced since. `counts` are the restart counts to record,
    `counted_before` those that the status has, and `disruption_counts` how many restarts followed on disruptions. Of
    the wanted replicas, `succeeded` have succeeded, and `failed` (indexes) have failed for good, now or earlier,
    `newly_failed` now; `restarts` and `disruptions` of all replicas include those decided on now. `has_new_disruption`:
    one of them is. `outliving` are the pods of ended replicas in which other containers run on. `job_restarts` is the
    number of restarts of all replicas of the job together: a pod with a lower number is old. `restarting_since` is when
    the job's condition Restarting became true, None if it isn't. With `in_place` kubelets restart the containers, and
    `returned` are the replicas whose restarts were over when they were first seen. `may_count_in_place`: the pods show
    a restart in place that may be new.
    """

    def __init__(
        self, replica_type: ReplicaType, spec: ReplicaSpec | None, old: ReplicaStatus, job_restarts: int
    ) -> None:
        super().__init__(replica_type, spec)
        self.job_restarts = job_restarts
        self.restarting_since: datetime | None = None
        self.started_before = parse_indexes(old.started_indexes) if old.started_indexes else frozenset()
        self.kept_started: set[int] = set()
        self.completed = set(parse_indexes(old.completed_indexes)) if old.completed_indexes else set()
        self.failed_before = parse_indexes(old.failed_indexes) if old.failed_indexes else frozenset()
        self.counts = _read_counts(old.restart_counts) if old.restart_counts else {}
        self.counted_before = dict(self.counts)
        read = _read_counts(old.disruption_counts) if old.disruption_counts else {}
        # More than there were restarts is not true.
        self.disruption_counts = {index: min(read[index], self.counts.get(index, 0)) for index in read}
        self.replicas: list[Replica] = []
        self.surplus: list[tuple[int, Pod]] = []
        self.duplicates: list[tuple[int, Pod]] = []
        self.outliving: list[Pod] = []
        self.succeeded = self.restarts = self.disruptions = 0
        self.has_new_disruption = False
        self.failed: list[int] = []
        self.newly_failed: list[Replica] = []
        self.in_place = False
        self.may_count_in_place = False
        self.returned: list[Replica] = []

    def name_of(self, replica: Replica) -> str:
        """Return the name of a replica in messages and reports, such as `worker-0`."""
        return f"{self.type.lower()}-{replica.index}"

    def restart_running(self, replica: Replica, cause: str) -> None:
        """Restart a running replica: its pod is deleted at once. Call `add_up` afterwards."""
        assert replica.pod is not None
        replica.restart(restarts_so_far(replica.pod), replica.counted, cause)
        replica.wait = 0.0
        replica.ready = False
        self.counts[replica.index] = replica.restarts
        self.kept_started.discard(replica.index)

    def forget_new_restarts(self) -> None:
        """Don't count the new restarts: they are not carried out, or count as one of the whole job."""
        for replica in self.replicas:
            replica.restarts = replica.counted
            if replica.newly_restarting:
                self.counts[replica.index] = replica.counted
                if replica.disruption:
                    self.disruption_counts[replica.index] -= 1
        self.add_up()

    def add_up(self) -> None:
        """Compute the totals of the replicas, once all are known, and again if they have changed."""
        self.restarts = sum(self.counts.values())
        self.disruptions = sum(self.disruption_counts.values()) if self.disruption_counts else 0
        self.succeeded = 0
        self.failed, self.newly_failed = [], []
        for replica in self.replicas:
            if replica.state is ReplicaState.SUCCEEDED:
                self.succeeded += 1
            elif replica.state is ReplicaState.FAILED:
                self.failed.append(replica.index)
                if replica.index not in self.failed_before:
                    self.newly_failed.append(replica)


class JobRestart(msgspec.Struct, frozen=True):
    """The restarts of a whole job.

    `number` counts them, including one that is decided on now (`causes` has the reason by replica). `disruptions` of
    them followed on disruptions, and the one decided on now does so if it `is_disruption`. `old` are the pods of
    earlier numbers, and those that have ended may go in `wait` seconds: they hold the logs, and the delay.
    """

    number: int
    disruptions: int = 0
    causes: tuple[str, ...] = ()
    old: tuple[Pod, ...] = ()
    wait: float = 0.0
    is_disruption: bool = False


def restarting_because(job: str, lost: Sequence[tuple[ReplicaGroup, Replica]]) -> str:
    """Return why a job restarts: replicas failed (the Go operator's words), or were taken from it, or both."""
    failed = [(group, one) for group, one in lost if not one.disruption]
    types = ", ".join(dict.fromkeys(group.type for group, _ in failed))
    ends = some(f"{group.type}-{one.index}: {one.cause}" for group, one in failed)
    taken = some(f"{group.type}-{one.index} ({one.disruption})" for group, one in lost if one.disruption)
    why = (
        f"{types} replica(s) failed ({ends})" if failed else "",
        f"replica(s) were taken from it: {taken}" if taken else "",
    )
    return f"job {job} is restarting because {', and '.join(filter(None, why))}."


def some(texts: Iterable[str]) -> str:
    """Return the first of these texts, and how many more there are."""
    known = [*texts]
    more = f" and {len(known) - _MAX_NAMES} more" if len(known) > _MAX_NAMES else ""
    return ", ".join(known[:_MAX_NAMES]) + more


def start_over(groups: Iterable[ReplicaGroup]) -> None:
    """Release all replicas but those that failed for good: the further states of their pods count for nothing."""
    for group in groups:
        group.kept_started.clear()
        group.completed.clear()
        for replica in group.replicas:
            if replica.state is not ReplicaState.FAILED:
                replica.state = ReplicaState.MISSING if replica.pod is None else ReplicaState.LEAVING
                replica.ready = False
                replica.wait = None
        group.add_up()


def has_record(status: ReplicaStatus) -> bool:
    """Return whether a type's status must be kept in case the type leaves the spec and comes back."""
    return bool(status.restart_counts or status.completed_indexes)


def restarts_so_far(pod: Pod) -> int:
    """Return the number of restarts of the pod's replica, according to the pod."""
    # One less than the maximum, so that the next restart differs from one that is recorded already.
    restarts = restarts_before(pod) + restarts_in_place(pod)
    return restarts if restarts < MAX_RESTARTS else MAX_RESTARTS - 1


def _read_counts(counts: dict[str, int]) -> dict[int, int]:
    """Restart counts as numbers; keys that are no index and counts that aren't positive are dropped."""
    read = {parse_replica_index(key): count for key, count in counts.items() if count > 0}
    return {index: min(count, MAX_RESTARTS) for index, count in read.items() if index is not None}


def waiting_reasons(
    groups: Iterable[ReplicaGroup], refusals: Refusals | None, now: datetime, before: str, *, gang: str | None
) -> Iterator[tuple[str, int, Reason]]:
    """Yield type, index and reason of each replica that waits for a known reason.

    `gang` is the reason why the job's gang waits, empty if that is unknown: it is the reason of each replica without a
    node. `before` is the message of the condition as it is. Its word counts about replicas that restart, for what took
    a pod is known at first only, and about refusals, where this process has not tried to create anything yet.
    """
    told = reasons_in(before) if " wait" in before else {}
    tried = refusals or {}
    for group in groups:
        of_all = next((tried[kind] for kind in _NEEDED_BY_ALL if kind in tried), None) if tried else None
        of_all = of_all or (_refusal_of_type(group, tried) if tried else None)
        for replica in group.replicas:
            if replica.ready or replica.state in ENDED_STATES:
                continue
            known = told.get(f"{group.type}-{replica.index}", "")
            refusal = tried.get((group.type, replica.index)) or of_all
            if refusals is None and is_refusal_text(known):
                refusal = Reason(ReasonKind.OTHER, known)
            reason = _reason(group, replica, refusal, known, now)
            if gang is not None and (reason is None or reason.kind is ReasonKind.UNSCHEDULABLE):
                placed = replica.pod is not None and replica.pod.spec.node_name
                reason = Reason(ReasonKind.OTHER, gang, _GANG_STEP) if gang and not placed else None
            if reason is not None:
                yield group.type, replica.index, reason


def seconds_to_next_reason(groups: Iterable[ReplicaGroup], now: datetime) -> float | None:
    """Return the seconds until time alone gives a reason to a replica that is starting; None if it never does."""
    pending = (one.pod for group in groups for one in group.replicas if one.state is ReplicaState.PENDING)
    left = [look_again(pod, now) for pod in pending if pod is not None and pod.spec.node_name]
    return min((seconds for seconds in left if seconds is not None), default=None)


def _refusal_of_type(group: ReplicaGroup, refusals: Refusals) -> Reason | None:
    """Return the reason of a replica of the type that could not be created: the others are made from the same template.

    After a refusal the operator tries no more of them for a while.
    """
    missing = (one.index for one in group.replicas if one.state in STATES_WITHOUT_POD)
    found = (refusals.get((group.type, index)) for index in missing)
    return next((one for one in found if one is not None and one.kind not in _OF_ONE_REPLICA), None)


def _reason(group: ReplicaGroup, replica: Replica, refusal: Reason | None, known: str, now: datetime) -> Reason | None:
    if replica.held_until is not None:
        again = f"it was taken from the job again and again, and is made again at {replica.held_until:%H:%M:%S} UTC"
        return Reason(ReasonKind.OTHER, again)
    without = replica.state in STATES_WITHOUT_POD
    if without and refusal is not None:
        return refusal
    if replica.state is ReplicaState.RESTARTING or (without and replica.cause):
        why = f"{_RESTART}{replica.disruption or replica.cause})"
        return Reason(ReasonKind.OTHER, why if replica.newly_restarting or not known.startswith(_RESTART) else known)
    if replica.pod is None or replica.state not in (ReplicaState.PENDING, ReplicaState.RUNNING):
        return None
    return why_it_waits(replica.pod, None, now, None if group.spec is None else group.spec.template)
