"""Decides from the states of the replicas whether a job has succeeded, has failed or goes on.

Success is looked for first, and a verdict is one or the other, never both: a job whose chief is done has succeeded
even if the same glance shows a worker that failed, for the chief decides. How many workers must succeed and how many
may fail are two questions with an answer each (`minSucceededWorkers`, `maxFailedWorkers`); a job also fails as soon as
the first number is out of reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import NamedTuple

import msgspec

from tfoperator.api.int_or_percent import allowed, required
from tfoperator.api.job_conditions import (
    ACTIVE_TOO_LONG,
    BACKOFF_LIMIT_REACHED,
)
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.disruptions import DisruptionBackoff
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import UsagePhase, find_condition
from tfoperator.api.v1.types import OnStall, ReplicaType, SuccessPolicy, TFJob
from tfoperator.api.waiting import Reason, ReasonKind, summary
from tfoperator.base.clock import seconds_between
from tfoperator.controller.plan.held_resources import program_of, termination_of
from tfoperator.controller.plan.in_place import end_before_wait
from tfoperator.controller.plan.observed import Observed, PlanOptions
from tfoperator.controller.plan.progress import NOT_WATCHED, Stall
from tfoperator.controller.plan.replicas import (
    JobRestart,
    Replica,
    ReplicaGroup,
    ReplicaState,
    some,
    waiting_reasons,
)
from tfoperator.controller.plan.restart import Ending, is_unseen
from tfoperator.controller.pods.manifests import CHIEF_TYPES

_MAX_CAUSES = 3
_TRAINED = (UsagePhase.TRAINING, UsagePhase.LOST, UsagePhase.STALLED)
_LEADER_TYPES = (*CHIEF_TYPES, ReplicaType.WORKER)


class Stage(Enum):
    """The stage of a job's life."""

    ACTIVE = "the job goes on"
    SUSPENDED = "its pods are released"
    SUCCEEDED = "it has ended well"
    FAILED = "it has ended badly"

    @property
    def is_end(self) -> bool:
        """Whether the job has ended."""
        return self in (Stage.SUCCEEDED, Stage.FAILED)


class Situation(msgspec.Struct):
    """The facts about a job that has not ended, for one plan: observed facts, and conclusions step by step.

    `start` is when it (last) started to run, and `resumed` whether that is now. A deadline that is over awaits stacks
    for `left_for_stacks` seconds before it ends the job. `node_failures` and `backoff` are to be remembered.
    Replicas that were taken again and again are `held` for so many seconds.
    """

    observed: Observed
    now: datetime
    options: PlanOptions
    groups: Sequence[ReplicaGroup]
    suspended: bool
    resumed: bool = False
    start: datetime | None = None
    stall: Stall = NOT_WATCHED
    restart: JobRestart = JobRestart(0)
    left_for_stacks: float | None = None
    node_failures: Mapping[str, int] = {}
    backoff: DisruptionBackoff | None = None
    held: float = 0.0

    @property
    def job(self) -> TFJob:
        """The job as observed."""
        return self.observed.job

    @property
    def deadline_left(self) -> float | None:
        """Seconds until `activeDeadlineSeconds` is over; None without a deadline or before the job's start."""
        deadline, start = self.job.spec.policy.active_deadline_seconds, self.start
        return None if deadline is None or start is None else max(deadline, 0) - seconds_between(start, self.now)

    @property
    def start_left(self) -> float | None:
        """Seconds until `startDeadlineSeconds` is over; None without one, or if every replica has started.

        A restart shows that a replica had started, and so does one of the whole job. A replica that is added later has
        no deadline: its pod is made after it, or the job has trained without it.
        """
        deadline, start = self.job.spec.policy.start_deadline_seconds, self.start
        if deadline is None or start is None or self.restart.number:
            return None
        left = max(deadline, 1) - seconds_between(start, self.now)
        return left if any(True for _ in self.unstarted(left)) else None

    def unstarted(self, left: float) -> Iterator[tuple[ReplicaGroup, Replica]]:
        """Yield the replicas that have not started yet and should have, or should in the `left` seconds."""
        usage = self.observed.usage or self.job.status.usage
        has_trained = usage is not None and (usage.phase in _TRAINED or bool(usage.seconds.get(UsagePhase.TRAINING)))
        for group in self.groups:
            for one in group.replicas:
                if one.restarts or one.state not in (ReplicaState.MISSING, ReplicaState.PENDING):
                    continue
                made = None if one.pod is None else one.pod.metadata.creation_timestamp
                late = has_trained if made is None else seconds_between(made, self.now) <= -left
                if not late:
                    yield group, one


class Verdict(NamedTuple):
    """The stage of a job, and why it has failed; `reason` is that of its condition Failed."""

    stage: Stage
    failure: str | None = None
    reason: JobReason = JobReason.FAILED


def judge(known: Situation) -> Verdict:
    """Return whether the job has ended, and with which result.

    Success comes first; then a replica that failed for good, too many failures, or too much time. The deadline of a
    suspended job stands still. A stall that is handled now either ends the job, or has had replicas counted as lost.
    """
    job, groups, stall = known.job, known.groups, known.stall
    if _has_succeeded(job, groups):
        return Verdict(Stage.SUCCEEDED)
    lost = next((group for group in groups if _is_fatal(job, groups, group)), None)
    if lost is not None:
        return Verdict(Stage.FAILED, _replicas_failed_message(job, lost))
    stalled = "" if stall.ends_as is OnStall.REPORT else stall.message
    if _has_too_many_failures(known):
        failure = _job_failed_because(job, BACKOFF_LIMIT_REACHED)
        if stalled:
            return Verdict(Stage.FAILED, f"{failure}. {stalled}", JobReason.PROGRESS_DEADLINE_EXCEEDED)
        last = some(known.restart.causes or _last_failures(groups))
        return Verdict(Stage.FAILED, f"{failure}: {last}" if last else failure)
    if known.suspended:
        return Verdict(Stage.SUSPENDED)
    left = known.deadline_left
    if left is not None and left <= 0 and known.left_for_stacks is None:
        return Verdict(Stage.FAILED, _job_failed_because(job, ACTIVE_TOO_LONG))
    left = known.start_left
    if left is not None and left <= 0:
        return Verdict(Stage.FAILED, _not_started_message(known, left), JobReason.START_DEADLINE_EXCEEDED)
    if stalled and stall.ends_as is OnStall.FAIL:
        return Verdict(Stage.FAILED, stalled, JobReason.PROGRESS_DEADLINE_EXCEEDED)
    return Verdict(Stage.ACTIVE)


def _has_succeeded(job: TFJob, groups: Sequence[ReplicaGroup]) -> bool:
    """Return whether the job has met its success policy.

    `minSucceededWorkers` goes before everything else. Without it all chiefs must have succeeded, where there are any;
    else worker 0, or under AllWorkers every worker but those that may fail; in a job that has neither chief nor worker
    all replicas must. Types scaled to zero count as absent: no work done is no success. But where that leaves neither
    chief nor worker the job waits for them: its success could not be taken back when they are scaled up again.
    """
    present = [group for group in groups if group.size > 0]
    workers = next((group for group in present if group.type is ReplicaType.WORKER), None)
    if workers is not None and job.spec.min_succeeded_workers is not None:
        return workers.succeeded >= required(job.spec.min_succeeded_workers, workers.size)
    chiefs = [group for group in present if group.type in CHIEF_TYPES]
    if chiefs:
        return all(group.succeeded == group.size for group in chiefs)
    if workers is None:
        return (
            bool(present)
            and not absent_leaders(job, groups)
            and all(group.succeeded == group.size for group in present)
        )
    if job.spec.success_policy != SuccessPolicy.ALL_WORKERS:
        return 0 in workers.completed
    failed = len(workers.failed)
    done_without = failed if failed <= _may_fail(job, workers) else 0
    return workers.succeeded > 0 and workers.succeeded + done_without == workers.size


def absent_leaders(job: TFJob, groups: Sequence[ReplicaGroup]) -> tuple[ReplicaType, ...]:
    """Return the types of chiefs and workers that the spec has, if all of them are scaled to zero."""
    led = [one for one in groups if one.type in job.spec.tf_replica_specs and one.type in _LEADER_TYPES]
    return () if any(one.size > 0 for one in led) else tuple(one.type for one in led)


def _has_too_many_failures(known: Situation) -> bool:
    """Return whether more restarts followed on failures than `backoffLimit` allows, or a kubelet is to make the next.

    A restart by a kubelet, under the pod's own policy, is counted once the container runs again. Restarts after
    disruptions don't count.
    """
    limit = known.job.spec.policy.backoff_limit
    if limit is None or limit < 0:
        return False
    by_policy = [replica for group in known.groups if not group.in_place for replica in group.replicas]
    due = sum(one.state is ReplicaState.RUNNING and _restarts_after_failure(one) for one in by_policy)
    together = max(known.restart.number - known.restart.disruptions, 0)
    return limit < together + sum(group.restarts - group.disruptions for group in known.groups) + due


def _last_failures(groups: Sequence[ReplicaGroup]) -> Iterator[str]:
    """Yield the replicas with their last failures: those whose failure is new, else those that have failed before."""
    replicas = [(group, one) for group in groups for one in group.replicas]
    new = [(group, one) for group, one in replicas if one.newly_restarting and not one.disruption]
    for group, one in new:
        yield f"{group.type}-{one.index}: {one.cause or 'it was started again'}"
    for group, one in () if new else replicas:
        end = termination_of(program_of(one.pod)) or termination_of(program_of(one.pod), last=True)
        if end is not None and end.exit_code != 0 and not is_unseen(end):
            yield f"{group.type}-{one.index}: {Ending(end.exit_code, end.reason, infrastructure=False)}"


def _restarts_after_failure(replica: Replica) -> bool:
    """Return whether the replica's kubelet is about to restart its container because it has failed."""
    end = end_before_wait(replica.pod)
    return end is not None and not is_unseen(end)


def _is_fatal(job: TFJob, groups: Sequence[ReplicaGroup], group: ReplicaGroup) -> bool:
    """Return whether the failed replicas of this type end the job."""
    failed = group.failed
    if not failed:
        return False
    if group.type is not ReplicaType.WORKER:
        return True
    spec = job.spec
    unbounded = spec.max_failed_workers is None and bool(spec.enable_dynamic_worker)
    if not unbounded and len(failed) > _may_fail(job, group):
        return True
    if spec.min_succeeded_workers is not None:
        return group.size - len(failed) < required(spec.min_succeeded_workers, group.size)
    if any(other.type in CHIEF_TYPES and other.size > 0 for other in groups):
        return False
    if not unbounded and spec.success_policy != SuccessPolicy.ALL_WORKERS and 0 in failed:
        return True  # Worker 0 leads here, and a job without its leader can't succeed.
    # Dynamic workers may come and go, as in the Go operator; but when none is left to do the work, waiting would
    # never end.
    return len(failed) + group.succeeded == group.size


def _may_fail(job: TFJob, workers: ReplicaGroup) -> int:
    """Return the number of workers that may fail according to the job."""
    limit = job.spec.max_failed_workers
    return 0 if limit is None else allowed(limit, workers.size)


def _replicas_failed_message(job: TFJob, group: ReplicaGroup) -> str:
    failed = [replica for replica in group.replicas if replica.state is ReplicaState.FAILED]
    failed.sort(key=lambda replica: replica.index in group.failed_before)  # new failures, which ended the job, first
    causes = [f"{group.type}-{r.index}: {r.cause}" for r in failed[:_MAX_CAUSES] if r.cause]
    more = f"; and {len(failed) - _MAX_CAUSES} more" if len(failed) > _MAX_CAUSES else ""
    return (
        f"TFJob {job.metadata.namespace}/{job.metadata.name} has failed because {len(failed)} {group.type} replica(s) "
        f"failed. {'; '.join(causes)}{more}"
    ).rstrip()


def _not_started_message(known: Situation, left: float) -> str:
    """Return which replicas have not started in time, and why not, as far as that is known."""
    late = {(group.type, one.index) for group, one in known.unstarted(left)}
    observed = known.observed
    running = find_condition(observed.job.status.conditions, ConditionType.RUNNING)
    before = "" if running is None else running.message
    found = waiting_reasons(known.groups, observed.not_created, known.now, before, gang=None)
    reasons: list[tuple[str, int, Reason]] = [one for one in found if one[:2] in late]
    told = {one[:2] for one in reasons}
    unknown = Reason(ReasonKind.OTHER, "its pod has not started")
    reasons += [(kind, index, unknown) for kind, index in sorted(late - told)]
    allowed_seconds = known.job.spec.policy.start_deadline_seconds
    cause = f"not all of its replicas have started within the {allowed_seconds} seconds of startDeadlineSeconds"
    return f"{_job_failed_because(known.job, cause)}: {summary(reasons, before)}"


def _job_failed_because(job: TFJob, cause: str) -> str:
    return f"Job {job.metadata.name} has failed because {cause}"
