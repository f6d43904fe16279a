"""Whether a job has succeeded, has failed, runs or is ready, from what its replicas do.

Success is looked for first, and a verdict is one or the other, never both: a job whose chief is done has succeeded
even if the same glance shows a worker that failed, for the chief decides. How many workers must succeed and how many
may fail are two questions with an answer each (`minSucceededWorkers`, `maxFailedWorkers`); a job also fails as soon as
the first number is out of reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tfoperator.api.shares import allowed, required
from tfoperator.api.v1.types import ReplicaType, RunPolicy, SuccessPolicy, TFJob
from tfoperator.controller.replicas import Replica, ReplicaGroup, Standing
from tfoperator.controller.times import seconds_between

__all__ = ["CHIEF_TYPES", "Failure", "deadline_left", "failure_of_job", "has_succeeded", "is_ready", "is_running"]

CHIEF_TYPES = (ReplicaType.CHIEF, ReplicaType.MASTER)
"""The types that lead a job; with neither, worker 0 does."""

_LISTED_CAUSES = 3


class Failure(msgspec.Struct, frozen=True):
    """Why a job has failed, as the condition and the event say it."""

    message: str


def has_succeeded(job: TFJob, groups: Sequence[ReplicaGroup]) -> bool:
    """Whether the job has reached its success policy.

    `minSucceededWorkers` goes before everything else. Without it all chiefs must have succeeded, where there are any;
    else worker 0, or under AllWorkers every worker but those that may fail; in a job that has neither chief nor worker
    everything must. Types scaled to zero count as absent: no work done is no success.
    """
    present = [group for group in groups if group.size > 0]
    workers = next((group for group in present if group.type is ReplicaType.WORKER), None)
    if workers is not None and job.spec.min_succeeded_workers is not None:
        return workers.succeeded >= required(job.spec.min_succeeded_workers, workers.size)
    chiefs = [group for group in present if group.type in CHIEF_TYPES]
    if chiefs:
        return all(group.succeeded == group.size for group in chiefs)
    if workers is None:
        return bool(present) and all(group.succeeded == group.size for group in present)
    if job.spec.success_policy != SuccessPolicy.ALL_WORKERS:
        return 0 in workers.completed
    failed = len(workers.failed)
    done_without = failed if failed <= _may_fail(job, workers) else 0
    return workers.succeeded > 0 and workers.succeeded + done_without == workers.size


def failure_of_job(job: TFJob, groups: Sequence[ReplicaGroup], start: datetime | None, now: datetime) -> Failure | None:
    """Why the job must end, if it must: a replica that failed for good, too many restarts, or too much time.

    `start` is when the job (last) started to run; None while it doesn't, and its deadline stands still.
    """
    lost = next((group for group in groups if _is_fatal(job, groups, group)), None)
    if lost is not None:
        return Failure(_replicas_failed_message(job, lost))
    policy = job.spec.run_policy or RunPolicy()
    restarts = sum(group.restarts for group in groups)
    limit = policy.backoff_limit
    # The Go operator's rule: the limit itself is one too many, except that 0 allows none just the same.
    if limit is not None and limit >= 0 and restarts >= max(limit, 1):
        return Failure(_job_failed_because(job, "it has reached the specified backoff limit"))
    left = deadline_left(job, start, now)
    if left is not None and left <= 0:
        return Failure(_job_failed_because(job, "it was active longer than specified deadline"))
    return None


def deadline_left(job: TFJob, start: datetime | None, now: datetime) -> float | None:
    """Seconds until `activeDeadlineSeconds` is over; None without a deadline or before the job's start."""
    policy = job.spec.run_policy
    if policy is None or policy.active_deadline_seconds is None or start is None:
        return None
    return max(policy.active_deadline_seconds, 0) - seconds_between(start, now)


def is_running(groups: Sequence[ReplicaGroup]) -> bool:
    """The Go operator's Running: a chief runs; without chiefs any worker; without either, anything."""
    chiefs = [group for group in groups if group.type in CHIEF_TYPES and group.size > 0]
    workers = [group for group in groups if group.type is ReplicaType.WORKER and group.size > 0]
    return any(r.standing is Standing.RUNNING for group in chiefs or workers or groups for r in group.replicas)


def is_ready(replica: Replica) -> bool:
    """Whether the replica runs with all its containers ready."""
    if replica.standing is not Standing.RUNNING or replica.pod is None:
        return False
    status = replica.pod.status
    for condition in status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return all(container.ready for container in status.container_statuses)


def _is_fatal(job: TFJob, groups: Sequence[ReplicaGroup], group: ReplicaGroup) -> bool:
    """Whether what failed of this type ends the job."""
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
    """How many workers the job says it can do without."""
    limit = job.spec.max_failed_workers
    return 0 if limit is None else allowed(limit, workers.size)


def _replicas_failed_message(job: TFJob, group: ReplicaGroup) -> str:
    failed = [replica for replica in group.replicas if replica.standing is Standing.FAILED]
    failed.sort(key=lambda replica: replica.index in group.failed_before)  # what is new, and what killed the job, first
    causes = [f"{group.type}-{r.index}: {r.cause}" for r in failed[:_LISTED_CAUSES] if r.cause]
    more = f"; and {len(failed) - _LISTED_CAUSES} more" if len(failed) > _LISTED_CAUSES else ""
    return (
        f"TFJob {job.metadata.namespace}/{job.metadata.name} has failed because {len(failed)} {group.type} replica(s) "
        f"failed. {'; '.join(causes)}{more}"
    ).rstrip()


def _job_failed_because(job: TFJob, cause: str) -> str:
    return f"Job {job.metadata.name} has failed because {cause}"
