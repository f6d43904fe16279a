"""The facts about a job that has not ended, for one plan: the observed state, and the facts that follow only from it.

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

_TRAINED = (UsagePhase.TRAINING, UsagePhase.LOST, UsagePhase.STALLED)


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
    """The facts about the gang of an active job, and about its PodGroup.

    `wanted` is the spec that the PodGroup should have; it is None while the PodGroup is being deleted. `may_create`:
    the job's objects may be created now. `waits` is the common reason why the job's pods wait: empty if the reason is
    unknown, and None if the pods don't wait. `is_stuck` means that a scheduler has found no room, which is reported in
    an event.
    """

    scheduler: GangScheduler
    manifests: ReplicaManifests
    wanted: PodGroupSpec | None
    may_create: bool
    waits: str | None
    is_stuck: bool


class TensorBoardObjects(msgspec.Struct, frozen=True):
    """The objects of a job's TensorBoard."""

    deployment: Deployment | None = None
    service: Service | None = None


class DataServiceState(Enum):
    """The state of one member of a job's data service."""

    MISSING = "needs its first pod"
    TAKEN = "had a pod that is gone although the operator did not delete it, and needs a new pod"
    PENDING = "its pod has not started"
    RUNNING = "its pod runs"
    FAILED = "its pod has ended, and the operator creates a new pod"
    LEAVING = "its pod is terminating, and the operator waits until the pod is gone"


class Member(msgspec.Struct, frozen=True, gc=False):
    """A member of a data service.

    `restarts` is its number of restarts now, and `recorded` the number in the job's status. `wait` is the number of
    seconds until a failed pod's restart. `is_started` means that the member has run, so the absence of its pod would be
    a loss.
    """

    member: DataServiceMember
    pod: Pod | None
    state: DataServiceState
    restarts: int
    recorded: int
    is_started: bool = False
    ready: bool = False
    wait: float = 0.0


class DataServiceFacts(msgspec.Struct, frozen=True):
    """The members of a job's data service, with the dispatcher first, and the pods that must be deleted."""

    members: tuple[Member, ...] = ()
    surplus: tuple[Pod, ...] = ()


class Facts(msgspec.Struct, frozen=True):
    """The facts about a job.

    If the job had ended before, or if its spec can't be used, then besides the verdict only `observed`, `now`,
    `options`, `conditions`, `tensorboard` and `problems` are known.

    `start` is the time at which the job (last) started to run, and `resumed` means that it starts again with this plan.
    If a deadline is over, the job waits `left_for_stacks` seconds for stacks before it ends. The status must record
    `node_failures` and `backoff`. New pods of replicas that were evicted or deleted again and again are delayed for
    `held` seconds. `absent` has the names of missing pods, and of pods that may have been replaced: these pods must be
    looked up, because a cache may be stale. The `groups` already have the changes that follow from the `verdict`. For a
    suspended job, `running_on` has the number of replicas by type that still run because they can't be stopped yet.
    `conditions` are the job's conditions. `tensorboard` is None if there is nothing to do for a TensorBoard: the job
    has no TensorBoard and requests none, or its spec is invalid. `data_service` is None if the job has no data service
    and requests none, if its spec is invalid, or if it had ended before. `gang` is None where the job's pods are not
    scheduled as a gang, or the job is not active. `size` is None unless the job has an `elasticPolicy` and is not
    suspended. If there is a `size`, the job's spec has the current number of workers. `problems` are the reasons why
    the job's spec can't be used.
    """

    observed: Observed
    now: datetime
    options: PlanOptions
    groups: tuple[ReplicaGroup, ...] = ()
    suspended: bool = False
    resumed: bool = False
    start: datetime | None = None
    conditions: tuple[JobCondition, ...] = ()
    stall: Stall = NOT_WATCHED
    restart: JobRestart = JobRestart(0)
    left_for_stacks: float | None = None
    node_failures: Mapping[str, int] = {}
    backoff: DisruptionBackoff | None = None
    held: float = 0.0
    absent: tuple[str, ...] = ()
    verdict: Verdict = GOES_ON
    running_on: Mapping[ReplicaType, int] = {}
    gang: Gang | None = None
    size: Size | None = None
    tensorboard: TensorBoardObjects | None = None
    data_service: DataServiceFacts | None = None
    problems: tuple[str, ...] = ()

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
        """How many of the `failures_of_replicas` do not count for `backoffLimit`: an earlier restart has their cause.

        For `backoffLimit`, restarts with the same cause count as a single failure: if eight workers restart for one
        cause, the first restart counts, and the other seven are shared restarts.
        """
        shared = max(self.job.status.shared_restarts, 0) + sum(group.shared for group in self.groups)
        return min(shared, self.failures_of_replicas) if shared else 0

    @property
    def deadline_left(self) -> float | None:
        """Seconds until `activeDeadlineSeconds` is over; None without a deadline or before the job's start."""
        deadline, start = self.job.spec.policy.active_deadline_seconds, self.start
        return None if deadline is None or start is None else max(deadline, 0) - seconds_between(start, self.now)

    @property
    def start_left(self) -> float | None:
        """The number of seconds until `startDeadlineSeconds` is over, negative afterwards; None if it does not apply.

        The deadline applies while a replica has not started. A replica that was restarted counts as started. After a
        restart of the whole job, all replicas count as started. The deadline does not apply to workers that a user adds
        later: a replica whose pod was created after the deadline or after the training began, or a replica without a
        pod in a job that has already trained.
        """
        deadline, start = self.job.spec.policy.start_deadline_seconds, self.start
        if deadline is None or start is None or self.restart.number:
            return None
        left = max(deadline, 1) - seconds_between(start, self.now)
        return left if any(True for _ in self.unstarted(left)) else None

    def unstarted(self, left: float) -> Iterator[tuple[ReplicaGroup, Replica]]:
        """Yield the replicas to which `startDeadlineSeconds` applies (see `start_left`) and that have not started.

        `left` is the number of seconds until the deadline is over, negative afterwards.
        """
        usage = self.observed.usage or self.job.status.usage
        trains_since = usage.since if usage is not None and usage.phase in _TRAINED else None
        has_trained = usage is not None and (usage.phase in _TRAINED or bool(usage.seconds.get(UsagePhase.TRAINING)))
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
