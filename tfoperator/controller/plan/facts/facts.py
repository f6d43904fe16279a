"""The facts about a job for one plan: the observed state, and the facts that follow only from this state.

Pure. `look` (look.py) makes them. Rules read them, and never change them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import NamedTuple

import msgspec

from tfoperator.api.replicas.data_service import DataServiceMember
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.disruptions import DisruptionBackoff
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import JobCondition, UsagePhase
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import seconds_between
from tfoperator.controller.plan.facts.elastic_size import Size
from tfoperator.controller.plan.facts.progress import NOT_WATCHED, Stall
from tfoperator.controller.plan.replicas.replicas import JobRestart, Replica, ReplicaGroup, ReplicaState
from tfoperator.controller.plan.values.observed import Observed, PlanOptions
from tfoperator.controller.pods.gang import GangScheduler
from tfoperator.controller.pods.manifests import ReplicaManifests
from tfoperator.controller.pods.pod_groups import PodGroupSpec
from tfoperator.kube.views.deployments import Deployment
from tfoperator.kube.views.objects import Pod, Service

TRAINED = (UsagePhase.TRAINING, UsagePhase.LOST, UsagePhase.STALLED)
"""The phases of a job that has trained since its last start."""


class Stage(Enum):
    """The stage of a job's life: it determines which rules of the plan apply."""

    ACTIVE = "the job continues"
    SUSPENDED = "its pods are deleted"
    SUCCEEDED = "it succeeds now"
    FAILED = "it fails now"
    FINISHED = "it had ended earlier"
    INVALID = "its spec is not valid"

    @property
    def is_end(self) -> bool:
        """Whether the job ends now."""
        return self in (Stage.SUCCEEDED, Stage.FAILED)

    @property
    def is_over(self) -> bool:
        """Whether the job ends now, or had ended."""
        return self in (Stage.SUCCEEDED, Stage.FAILED, Stage.FINISHED)


class Verdict(NamedTuple):
    """The stage of a job; if it fails now, `failure` and `reason` are message and reason of its condition Failed."""

    stage: Stage
    failure: str | None = None
    reason: JobReason = JobReason.FAILED


GOES_ON = Verdict(Stage.ACTIVE)
"""The verdict about a job that continues: nothing ends or suspends it."""


class Gang(msgspec.Struct, frozen=True):
    """The facts about the gang of an active job, and about its PodGroup."""

    scheduler: GangScheduler
    manifests: ReplicaManifests
    wanted: PodGroupSpec | None
    """The spec that the PodGroup should have; None while the PodGroup is being deleted."""

    may_create: bool
    """Whether the job's objects may be created now."""

    waits: str | None
    """The common reason why the job's pods wait: "" if the reason is unknown, None if the pods don't wait."""

    is_stuck: bool
    """Whether a scheduler has found no room. An event reports this."""


class TensorBoardObjects(msgspec.Struct, frozen=True):
    """The objects of a job's TensorBoard."""

    deployment: Deployment | None = None
    service: Service | None = None


class DataServiceState(Enum):
    """The state of one member (the dispatcher or a worker) of a job's data service."""

    MISSING = "needs its first pod"
    TAKEN = "had a pod that is gone although the operator did not delete it, and needs a new pod"
    PENDING = "its pod has not started"
    RUNNING = "its pod runs"
    FAILED = "its pod has ended, and the operator creates a new pod"
    LEAVING = "its pod is terminating, and the operator waits until the pod is gone"


class Member(msgspec.Struct, frozen=True, gc=False):
    """A member of a data service: the dispatcher or a worker of the service."""

    member: DataServiceMember
    pod: Pod | None
    state: DataServiceState
    restarts: int
    """The number of restarts of the member now."""

    recorded: int
    """The number of restarts of the member in the job's status."""

    is_started: bool = False
    """Whether the member has run, so that the absence of its pod would be a loss."""

    ready: bool = False
    wait: float = 0.0
    """The number of seconds until a failed pod is restarted."""


class DataServiceFacts(msgspec.Struct, frozen=True):
    """The members of a job's data service, with the dispatcher first, and the pods that must be deleted."""

    members: tuple[Member, ...] = ()
    surplus: tuple[Pod, ...] = ()


class Facts(msgspec.Struct, frozen=True):
    """The facts about a job.

    If the job had ended before, or if its spec can't be used, then besides the verdict only `observed`, `now`,
    `options`, `conditions`, `tensorboard` and `problems` are known.
    """

    observed: Observed
    """The observed state. If there is a `size`, the job's spec in it has the current number of workers."""

    now: datetime
    options: PlanOptions
    groups: tuple[ReplicaGroup, ...] = ()
    """The replicas by type, with the changes that follow from the `verdict`."""

    suspended: bool = False
    """Whether the job is suspended, or pods from before the end of the suspension still exist."""

    resumed: bool = False
    """Whether the job starts again with this plan, after a suspension."""

    start: datetime | None = None
    """The time at which the job last started to run."""

    conditions: tuple[JobCondition, ...] = ()
    """The conditions of the job in its status."""

    stall: Stall = NOT_WATCHED
    restart: JobRestart = JobRestart(0)
    left_for_stacks: float | None = None
    """The number of seconds for which a job whose deadline is over still waits for stacks before it ends."""

    node_failures: Mapping[str, int] = {}
    """The number of failures in a row of each replica on a node, by keys such as `worker-1/node`, for the status."""

    backoff: DisruptionBackoff | None = None
    """The last disruptions in a row, for the status."""

    held: float = 0.0
    """The number of seconds for which new pods are delayed whose replicas were evicted or deleted again and again."""

    absent: tuple[str, ...] = ()
    """The names of missing pods, and of pods that may have been replaced.

    These pods must be looked up before the plan is executed, because a cache may be stale.
    """

    verdict: Verdict = GOES_ON
    running_on: Mapping[ReplicaType, int] = {}
    """The number of replicas of a suspended job that still run, by type, because they can't be stopped yet."""

    gang: Gang | None = None
    """The gang of an active job; None if the job's pods are not scheduled as a gang."""

    size: Size | None = None
    """The number of workers; None for a job that has no `elasticPolicy` or is suspended."""

    tensorboard: TensorBoardObjects | None = None
    """The objects of the TensorBoard; None if the spec is invalid, or the job has no TensorBoard and requests none."""

    data_service: DataServiceFacts | None = None
    """The data service; None if the spec is invalid, the job had ended before, or has and requests no data service."""

    problems: tuple[str, ...] = ()
    """The reasons why the job's spec can't be used."""

    @property
    def job(self) -> TFJob:
        """The job as observed."""
        return self.observed.job

    def condition(self, condition: ConditionType) -> JobCondition | None:
        """Return the condition of that type that the job has, or None."""
        for present in self.conditions:
            if present.type == condition:
                return present
        return None

    def is_true(self, condition: ConditionType) -> bool:
        """Return whether the job has the condition, and it is true."""
        present = self.condition(condition)
        return present is not None and present.status == "True"

    @property
    def failures_of_replicas(self) -> int:
        """The number of restarts of single replicas after failures, without restarts after disruptions."""
        return sum(group.restarts - group.disruptions for group in self.groups)

    @property
    def shared_restarts(self) -> int:
        """How many of the `failures_of_replicas` have the same cause as an earlier restart.

        For `backoffLimit`, restarts with the same cause count as a single failure. If eight workers restart for one
        cause, the first restart counts, and the other seven (the shared restarts) do not count.
        """
        shared = max(self.job.status.shared_restarts, 0) + sum(group.shared for group in self.groups)
        return min(shared, self.failures_of_replicas) if shared else 0

    @property
    def deadline_left(self) -> float | None:
        """Seconds until `activeDeadlineSeconds` is over, negative afterwards; None without a deadline or a start."""
        deadline, start = self.job.spec.policy.active_deadline_seconds, self.start
        return None if deadline is None or start is None else max(deadline, 0) - seconds_between(start, self.now)

    @property
    def start_left(self) -> float | None:
        """The number of seconds until `startDeadlineSeconds` is over, negative afterwards; None if it does not apply.

        The deadline applies while a replica has not started. A replica that was restarted counts as started. After a
        restart of the whole job, all replicas count as started. There is one exception: if an elastic job has never
        trained, and has restarted only because its number of workers changed, the time begins again with the last
        change. The deadline does not apply to workers that a user adds later: a replica whose pod was created after the
        deadline or after the training began, or a replica without a pod in a job that has already trained.
        """
        deadline, start = self.job.spec.policy.start_deadline_seconds, self.start
        if deadline is None or start is None:
            return None
        if self.restart.number:
            if not self._has_only_changed_its_size or self._has_trained:
                return None
            start = start if self.size is None else self.size.record.since or start
        left = max(deadline, 1) - seconds_between(start, self.now)
        return left if any(True for _ in self.unstarted(left)) else None

    @property
    def _has_only_changed_its_size(self) -> bool:
        """Whether each restart of the whole job may have been a change of the number of workers."""
        changes = 0 if self.size is None else self.size.record.changes
        return self.restart.number <= min(changes, self.restart.disruptions)

    @property
    def _has_trained(self) -> bool:
        """Whether the job has trained, according to its usage."""
        usage = self.observed.usage or self.job.status.usage
        return usage is not None and (usage.phase in TRAINED or bool(usage.seconds.get(UsagePhase.TRAINING)))

    def unstarted(self, left: float) -> Iterator[tuple[ReplicaGroup, Replica]]:
        """Yield the replicas to which `startDeadlineSeconds` applies (see `start_left`) and that have not started.

        `left` is the number of seconds until the deadline is over, negative afterwards.
        """
        usage = self.observed.usage or self.job.status.usage
        trains_since = usage.since if usage is not None and usage.phase in TRAINED else None
        has_trained = self._has_trained
        for group in self.groups:
            for replica in group.replicas:
                if replica.restarts or replica.state not in (ReplicaState.MISSING, ReplicaState.PENDING):
                    continue
                made = None if replica.pod is None else replica.pod.metadata.creation_timestamp
                if made is None:
                    is_added = has_trained
                else:
                    is_added = seconds_between(made, self.now) <= -left or (
                        trains_since is not None and seconds_between(trains_since, made) > 0
                    )
                if not is_added:
                    yield group, replica
