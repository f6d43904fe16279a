"""Turns a heap of pods into replicas: what each index of each replica type is doing, and what that counts for.

The one subtle thing is a pod that goes away. `startedIndexes` in the status remembers for which indexes the loss of
the pod would be a loss to the job: an index enters when its pod is seen and leaves when it is completed or when the
operator itself lets go of the pod (restart, scale-down, suspension), in a status write that precedes the deletion.
So a pod of a started index that terminates or is gone was taken from us; any other one goes by our own will.

What has ended is remembered without its pod: completed indexes for ever, failed ones as long as the type has them, so
that scaling a worker away and back gives it another try.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from enum import Enum

import msgspec

from tfoperator.api.indexes import parse_indexes
from tfoperator.api.job_conditions import condition_of
from tfoperator.api.names import MAX_RESTARTS, parse_replica_index, replica_of
from tfoperator.api.v1.types import ConditionType, ReplicaSpec, ReplicaStatus, ReplicaType, TFJob
from tfoperator.base.clock import epoch_seconds, seconds_between
from tfoperator.controller.plan.observed import PlanOptions
from tfoperator.controller.plan.restart import (
    Ending,
    ended_by_deletion,
    ending_of,
    is_permanent,
    job_restarts_before,
    job_restarts_so_far,
    restart_wait,
    restarts_before,
    restarts_in_place,
)
from tfoperator.controller.pods import DesiredReplicas
from tfoperator.kube.objects import Pod

_ORDER = (ReplicaType.CHIEF, ReplicaType.EVALUATOR, ReplicaType.MASTER, ReplicaType.PS, ReplicaType.WORKER)
"""The order in which the Go operator looks at the types; the first failure it meets names the job's failure."""

_PHASE_RANK = {"Succeeded": 4, "Running": 3, "Pending": 2, "": 1}
_NO_STATUS = ReplicaStatus()


class ReplicaState(Enum):
    """What one replica is doing."""

    MISSING = "has no pod and needs one"
    VANISHED = "had a pod that is gone without our doing, and needs a new one"
    PENDING = "its pod has not started"
    RUNNING = "its pod runs"
    SUCCEEDED = "finished well, now or earlier; its pod may be gone"
    FAILED = "failed for good"
    RESTARTING = "its pod has failed or is being taken away, and it will be started again"
    LEAVING = "its pod terminates, which counts for nothing; it waits until the pod is gone"


class Replica:
    """One index of a replica type. Built for one plan and not shared; `wait` is seconds until a failed pod's restart.

    `restarts` is how often the replica has been restarted, the restart that it needs now included, which `counted`
    leaves out if it is news. `ready`: it runs with all its containers ready.
    """

    __slots__ = (
        "cause",
        "counted",
        "exit_code",
        "index",
        "newly_restarting",
        "pod",
        "ready",
        "restarts",
        "state",
        "wait",
    )

    def __init__(self, index: int, pod: Pod | None, state: ReplicaState, counted: int) -> None:
        self.index = index
        self.pod = pod
        self.state = state
        self.restarts = self.counted = counted
        self.cause = ""
        self.exit_code: int | None = None
        self.wait: float | None = None
        self.newly_restarting = False
        self.ready = False


class ReplicaGroup(DesiredReplicas):
    """All replicas of one type: `replicas` in index order, and the pods that stand for none of them.

    `completed` are the indexes known to have succeeded, also those beyond a size that was reduced since;
    `failed_before` those within the size that the status says have failed for good. `counts` are the restart counts to
    record. Of the wanted replicas, `succeeded` have succeeded, and `failed` (indexes) have failed for good, now or
    earlier, `newly_failed` now; `restarts` of all replicas have those decided on now included. `job_restarts` is how
    often all replicas of the job have been restarted together: a pod of an earlier time is old. `restarting_since` is
    when the job's condition Restarting became true, None if it isn't.
    """

    __slots__ = (
        "completed",
        "counts",
        "duplicates",
        "failed",
        "failed_before",
        "job_restarts",
        "kept_started",
        "newly_failed",
        "replicas",
        "restarting_since",
        "restarts",
        "started_before",
        "succeeded",
        "surplus",
    )

    def __init__(
        self, replica_type: ReplicaType, spec: ReplicaSpec | None, old: ReplicaStatus, job_restarts: int
    ) -> None:
        super().__init__(replica_type, spec)
        self.job_restarts = job_restarts
        self.restarting_since: datetime | None = None
        self.started_before = parse_indexes(old.started_indexes) if old.started_indexes else frozenset()
        self.kept_started: set[int] = set()
        self.completed = set(parse_indexes(old.completed_indexes)) if old.completed_indexes else set()
        failed = parse_indexes(old.failed_indexes) if old.failed_indexes else ()
        self.failed_before = frozenset(index for index in failed if index < self.size)
        self.counts = _read_counts(old.restart_counts) if old.restart_counts else {}
        self.replicas: list[Replica] = []
        self.surplus: list[tuple[int, Pod]] = []
        self.duplicates: list[tuple[int, Pod]] = []
        self.succeeded = self.restarts = 0
        self.failed: list[int] = []
        self.newly_failed: list[Replica] = []

    def restart_running(self, replica: Replica, cause: str) -> None:
        """Have a replica started again that runs: its pod goes at once. Call `add_up` afterwards."""
        assert replica.pod is not None
        _restart(replica, _restarts_so_far(replica.pod), replica.counted, cause)
        replica.wait = 0.0
        replica.ready = False
        self.counts[replica.index] = replica.restarts
        self.kept_started.discard(replica.index)

    def forget_new_restarts(self) -> None:
        """Don't count the restarts that are news: they are left undone, or count as one of the whole job."""
        for replica in self.replicas:
            replica.restarts = replica.counted
            if replica.newly_restarting:
                self.counts[replica.index] = replica.counted
        self.add_up()

    def add_up(self) -> None:
        """Compute what follows from the replicas, once all are known, and again if they have changed."""
        counts = self.counts
        self.restarts = sum(counts.values())
        self.succeeded = 0
        self.failed, self.newly_failed = [], []
        for replica in self.replicas:
            if replica.state is ReplicaState.SUCCEEDED:
                self.succeeded += 1
            elif replica.state is ReplicaState.FAILED:
                self.failed.append(replica.index)
                if replica.index not in self.failed_before:
                    self.newly_failed.append(replica)
            elif replica.state is ReplicaState.VANISHED:
                # Its restart is recorded once its successor (which carries the new count) has been seen.
                self.restarts += replica.restarts - counts.get(replica.index, 0)


def observe_replicas(job: TFJob, pods: Sequence[Pod], now: datetime, options: PlanOptions) -> list[ReplicaGroup]:
    """The job's replicas by type, in a fixed order.

    A type that the spec no longer has, but whose pods exist, or whose restarts or completions are recorded, appears
    with size 0. A pod whose labels name no replica
    is left out: it stands for nothing, and goes when the job does.
    """
    by_type: defaultdict[ReplicaType, defaultdict[int, list[Pod]]] = defaultdict(lambda: defaultdict(list))
    for pod in pods:
        replica = replica_of(pod.metadata.labels)
        if replica is not None:
            by_type[replica[0]][replica[1]].append(pod)
    groups = []
    specs = job.spec.tf_replica_specs
    job_restarts = job_restarts_so_far(job, pods)
    restarting = condition_of(job, ConditionType.RESTARTING)
    since = restarting.last_transition_time if restarting is not None and restarting.status == "True" else None
    for replica_type in _ORDER:
        old = job.status.replica_statuses.get(replica_type) or _NO_STATUS
        if replica_type in specs or replica_type in by_type or has_record(old):
            if job_restarts > job.status.job_restarts:
                # The status is of the time before the last restart of all: it knows nothing of today's pods.
                old = msgspec.structs.replace(old, started_indexes="", completed_indexes="")
            group = ReplicaGroup(replica_type, specs.get(replica_type), old, job_restarts)
            group.restarting_since = since
            _fill(group, by_type.get(replica_type) or {}, now, options)
            group.add_up()
            groups.append(group)
    return groups


def has_record(status: ReplicaStatus) -> bool:
    """Whether a type's status tells of what must not be forgotten, should the type leave the spec and come back."""
    return bool(status.restart_counts or status.completed_indexes)


def _fill(group: ReplicaGroup, by_index: dict[int, list[Pod]], now: datetime, options: PlanOptions) -> None:
    for index in range(group.size):
        pods = by_index.get(index)
        if not pods:
            group.replicas.append(_without_pod(group, index))
            continue
        if len(pods) > 1:
            pods.sort(key=_precedence)
            group.duplicates.extend((index, pod) for pod in pods[1:])
        replica = _with_pod(group, index, pods[0], now, options)
        if replica.state is not ReplicaState.VANISHED:
            group.counts[index] = replica.restarts
        group.replicas.append(replica)
    for index in sorted(by_index, reverse=True):
        if index < group.size:
            break
        for pod in by_index[index]:
            group.surplus.append((index, pod))
            # Nobody may have seen it while its index was wanted; then it alone tells of the restart that it is.
            so_far = _restarts_so_far(pod)
            if so_far > group.counts.get(index, 0):
                group.counts[index] = so_far


def _restarts_so_far(pod: Pod) -> int:
    """How often the pod's replica has been restarted, as the pod tells."""
    # One less than the most, so that the next restart can be told from one that is noted already.
    restarts = restarts_before(pod) + restarts_in_place(pod)
    return restarts if restarts < MAX_RESTARTS else MAX_RESTARTS - 1


def _without_pod(group: ReplicaGroup, index: int) -> Replica:
    restarts = group.counts.get(index, 0)
    if index in group.completed:
        return Replica(index, None, ReplicaState.SUCCEEDED, restarts)
    if index in group.failed_before:
        return Replica(index, None, ReplicaState.FAILED, restarts)
    if index not in group.started_before:
        return Replica(index, None, ReplicaState.MISSING, restarts)
    replica = Replica(index, None, ReplicaState.VANISHED, restarts)
    replica.restarts += 1
    replica.cause = "its pod was deleted"
    group.kept_started.add(index)
    return replica


def _with_pod(group: ReplicaGroup, index: int, pod: Pod, now: datetime, options: PlanOptions) -> Replica:
    noted = group.counts.get(index, 0)
    so_far = _restarts_so_far(pod)
    replica = Replica(index, pod, ReplicaState.PENDING, noted if noted > so_far else so_far)
    if index in group.completed:
        replica.state = ReplicaState.SUCCEEDED
        return replica
    if index in group.failed_before:
        _fail(replica, ending_of(pod) if pod.status.phase == "Failed" else None)
        return replica
    if group.job_restarts and job_restarts_before(pod) < group.job_restarts:
        replica.state = ReplicaState.LEAVING
        return replica
    if pod.metadata.deletion_timestamp is not None and (
        index not in group.started_before or pod.status.phase not in ("Succeeded", "Failed") or ended_by_deletion(pod)
    ):
        _judge_terminating(group, replica, so_far, noted)
        return replica
    phase = pod.status.phase
    if phase in ("Failed", "Unknown"):
        _judge_failed(group, replica, pod, so_far, noted)
        if replica.state is ReplicaState.RESTARTING and pod.metadata.deletion_timestamp is None:
            replica.wait = restart_wait(pod, so_far + 1, now, options)
        return replica
    if phase == "Succeeded":
        replica.state = ReplicaState.SUCCEEDED
        group.completed.add(index)
        return replica
    if phase == "Running" and noted > so_far and index not in group.started_before and _is_of_before(pod, group):
        # Its restart was decided on and written down, and its pod is still there: the deletion is yet to come.
        _restart(replica, so_far, noted, "is being started again")
        replica.wait = 0.0
        return replica
    if phase == "Running":
        replica.state = ReplicaState.RUNNING
        replica.ready = _is_ready(pod)
    group.kept_started.add(index)
    return replica


def _is_of_before(pod: Pod, group: ReplicaGroup) -> bool:
    """Whether a pod is older than the restarts that are under way.

    A newer one is what they have led to, even if it doesn't say so because somebody has taken its annotations away.
    """
    created, since = pod.metadata.creation_timestamp, group.restarting_since
    return created is not None and since is not None and seconds_between(created, since) >= 0


def _is_ready(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return all(container.ready for container in pod.status.container_statuses)


def _judge_terminating(group: ReplicaGroup, replica: Replica, so_far: int, noted: int) -> None:
    replica.state = ReplicaState.LEAVING
    if replica.index in group.started_before or noted > so_far:
        _restart(replica, so_far, noted, "its pod is being deleted")


def _judge_failed(group: ReplicaGroup, replica: Replica, pod: Pod, so_far: int, noted: int) -> None:
    ending = ending_of(pod)
    if is_permanent(ending, group.policy):
        _fail(replica, ending)
    else:
        replica.exit_code = ending.exit_code
        _restart(replica, so_far, noted, str(ending))


def _fail(replica: Replica, ending: Ending | None) -> None:
    replica.state = ReplicaState.FAILED
    if ending is not None:
        replica.exit_code = ending.exit_code
        replica.cause = str(ending)


def _restart(replica: Replica, so_far: int, noted: int, cause: str) -> None:
    replica.state = ReplicaState.RESTARTING
    replica.restarts = max(noted, so_far + 1)
    replica.newly_restarting = noted <= so_far
    replica.cause = cause


def _precedence(pod: Pod) -> tuple[bool, int, float, str, str]:
    """Sort key: of several pods for one index the first is kept, the most advanced, then the oldest."""
    return (
        pod.metadata.deletion_timestamp is not None,
        -_PHASE_RANK.get(pod.status.phase, 0),
        epoch_seconds(pod.metadata.creation_timestamp),
        pod.metadata.name,
        pod.metadata.uid,
    )


def _read_counts(counts: dict[str, int]) -> dict[int, int]:
    """Restart counts as numbers; keys that are no index and counts that aren't positive are dropped."""
    read = {parse_replica_index(key): count for key, count in counts.items() if count > 0}
    return {index: min(count, MAX_RESTARTS) for index, count in read.items() if index is not None}
