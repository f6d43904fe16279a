"""Decides from the states of the replicas whether a job has succeeded, has failed or continues.

The operator checks for success first. A job with a completed chief has succeeded even if a worker has failed at the
same time, because the chief decides. Two fields set how many workers must succeed and how many may fail
(`minSucceededWorkers`, `maxFailedWorkers`). A job also fails as soon as it can't reach `minSucceededWorkers` any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tfoperator.api.fields.int_or_percent import allowed, required
from tfoperator.api.v1.choices import OnStall, ReplicaType, SuccessPolicy
from tfoperator.api.v1.job_conditions import ACTIVE_TOO_LONG, BACKOFF_LIMIT_REACHED
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.types import TFJob
from tfoperator.api.waiting import Reason, ReasonKind, text_of, waiting_for
from tfoperator.controller.plan.facts.facts import GOES_ON, Facts, Stage, Verdict
from tfoperator.controller.plan.pod_ends.restart import Ending, is_unseen
from tfoperator.controller.plan.replicas.held_resources import program_of, termination_of
from tfoperator.controller.plan.replicas.in_place import end_before_wait
from tfoperator.controller.plan.replicas.replicas import Replica, ReplicaGroup, ReplicaState, some, waiting_reasons
from tfoperator.controller.pods.manifests import CHIEF_TYPES

_MAX_CAUSES = 3
_LEADER_TYPES = (*CHIEF_TYPES, ReplicaType.WORKER)


class VerdictRow(NamedTuple):
    """A verdict, and the reason why it precedes the verdicts after it in `VERDICTS`."""

    verdict: Callable[[Facts], Verdict | None]
    because: str


def judge(facts: Facts) -> Verdict:
    """Return whether the job has ended, and with which result. The first verdict in `VERDICTS` that applies wins."""
    for row in VERDICTS:
        verdict = row.verdict(facts)
        if verdict is not None:
            return verdict
    return GOES_ON


def _success(facts: Facts) -> Verdict | None:
    return Verdict(Stage.SUCCEEDED) if _has_succeeded(facts.job, facts.groups) else None


def _replica_failure(facts: Facts) -> Verdict | None:
    job, groups = facts.job, facts.groups
    lost = next((group for group in groups if _is_fatal(job, groups, group)), None)
    return None if lost is None else Verdict(Stage.FAILED, _replicas_failed_message(job, lost))


def _too_many_failures(facts: Facts) -> Verdict | None:
    if not _has_too_many_failures(facts):
        return None
    failure = _job_failed_because(facts.job, BACKOFF_LIMIT_REACHED)
    if facts.stall.ends_as is not OnStall.REPORT and facts.stall.message:
        # This plan ends a stall: it has marked the stalled replicas as restarting, and these restarts exceed the limit.
        return Verdict(Stage.FAILED, f"{failure}. {facts.stall.message}", JobReason.PROGRESS_DEADLINE_EXCEEDED)
    last = some(facts.restart.causes or _last_failures(facts.groups))
    return Verdict(Stage.FAILED, f"{failure}: {last}" if last else failure)


def _suspension(facts: Facts) -> Verdict | None:
    return Verdict(Stage.SUSPENDED) if facts.suspended else None


def _deadline(facts: Facts) -> Verdict | None:
    left = facts.deadline_left
    if left is None or left > 0 or facts.left_for_stacks is not None:
        return None
    return Verdict(Stage.FAILED, _job_failed_because(facts.job, ACTIVE_TOO_LONG))


def _late_start(facts: Facts) -> Verdict | None:
    left = facts.start_left
    if left is None or left > 0:
        return None
    return Verdict(Stage.FAILED, _not_started_message(facts, left), JobReason.START_DEADLINE_EXCEEDED)


def _stall(facts: Facts) -> Verdict | None:
    if facts.stall.ends_as is not OnStall.FAIL or not facts.stall.message:
        return None
    return Verdict(Stage.FAILED, facts.stall.message, JobReason.PROGRESS_DEADLINE_EXCEEDED)


VERDICTS = (
    VerdictRow(
        _success,
        "The work is done. A failure of another replica, or a limit that is reached later, does not change this.",
    ),
    VerdictRow(
        _replica_failure,
        "The operator does not restart a replica that failed for good, so a limit or a suspension changes nothing.",
    ),
    VerdictRow(
        _too_many_failures,
        "A job that has reached its limit of failures fails, even if a user has suspended it at the same time.",
    ),
    VerdictRow(_suspension, "While a job is suspended, its deadlines do not run, and it makes no progress."),
    VerdictRow(
        _deadline, "A deadline limits the time of the whole job, so it comes before limits for parts of this time."
    ),
    VerdictRow(_late_start, "A replica that has not started is the reason why the others make no progress."),
    VerdictRow(_stall, "A stall ends only jobs that no other verdict ends, so the stall is the last verdict."),
)
"""The possible verdicts, in order. The first verdict that applies wins. If no verdict applies, the job continues."""


def _has_succeeded(job: TFJob, groups: Sequence[ReplicaGroup]) -> bool:
    """Return whether the job has met its success policy.

    `minSucceededWorkers` takes precedence over all other rules. Without `minSucceededWorkers`, all chiefs must have
    succeeded. If the job has no chief, worker 0 must have succeeded; under AllWorkers, every worker except the workers
    that may fail. If the job has neither chief nor worker, all replicas must have succeeded. Replica types that are
    scaled to zero count as absent. A job without any replica has not succeeded. If chiefs and workers are all scaled to
    zero, the job waits for them: the operator could not revoke a success when a user scales them up again.
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
    """Return the types of chiefs and workers in the spec if all of them are scaled to zero; else an empty tuple."""
    led = [group for group in groups if group.type in job.spec.tf_replica_specs and group.type in _LEADER_TYPES]
    return () if any(group.size > 0 for group in led) else tuple(group.type for group in led)


def _has_too_many_failures(facts: Facts) -> bool:
    """Return whether failures cause more restarts than `backoffLimit` allows.

    The restarts that kubelets are about to make under the pods' own restart policy count already, although the status
    counts such a restart only when the container runs again. Restarts after disruptions don't count. Restarts of
    several replicas for one cause, such as a stall, count as one restart.
    """
    limit = facts.job.spec.policy.backoff_limit
    if limit is None or limit < 0:
        return False
    by_policy = [replica for group in facts.groups if not group.record.in_place for replica in group.replicas]
    due = sum(replica.state is ReplicaState.RUNNING and _restarts_after_failure(replica) for replica in by_policy)
    together = max(facts.restart.number - facts.restart.disruptions, 0)
    return limit < together + facts.failures_of_replicas - facts.shared_restarts + due


def _last_failures(groups: Sequence[ReplicaGroup]) -> Iterator[str]:
    """Yield each failed replica with its last failure.

    If the status has not recorded some of the failures yet, yield only these; otherwise yield earlier failures.
    """
    replicas = [(group, replica) for group in groups for replica in group.replicas]
    new = [(group, replica) for group, replica in replicas if replica.newly_restarting and not replica.disruption]
    for group, replica in new:
        yield f"{group.type}-{replica.index}: {replica.cause or 'the replica was started again'}"
    for group, replica in () if new else replicas:
        end = termination_of(program_of(replica.pod)) or termination_of(program_of(replica.pod), last=True)
        if end is not None and end.exit_code != 0 and not is_unseen(end):
            yield f"{group.type}-{replica.index}: {Ending(end.exit_code, end.reason, infrastructure=False)}"


def _restarts_after_failure(replica: Replica) -> bool:
    """Return whether the kubelet is about to restart the replica's container, because the container has failed."""
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
    # Dynamic workers may come and go, as in the Go operator. But if no worker is left to do the work, the job would
    # never end.
    return len(failed) + group.succeeded == group.size


def _may_fail(job: TFJob, workers: ReplicaGroup) -> int:
    """Return the number of workers that may fail according to the job."""
    limit = job.spec.max_failed_workers
    return 0 if limit is None else allowed(limit, workers.size)


def _replicas_failed_message(job: TFJob, group: ReplicaGroup) -> str:
    failed = [replica for replica in group.replicas if replica.state is ReplicaState.FAILED]
    failed.sort(key=lambda replica: replica.index in group.record.failed)  # new failures, which ended the job, first
    causes = [f"{group.type}-{r.index}: {r.cause}" for r in failed[:_MAX_CAUSES] if r.cause]
    more = f"; and {len(failed) - _MAX_CAUSES} more" if len(failed) > _MAX_CAUSES else ""
    return (
        f"TFJob {job.metadata.namespace}/{job.metadata.name} has failed because {len(failed)} {group.type} replica(s) "
        f"failed. {'; '.join(causes)}{more}"
    ).rstrip()


def _not_started_message(facts: Facts, left: float) -> str:
    """Return which replicas have not started in time, and the reason if it is known.

    `left` is the number of seconds until `startDeadlineSeconds` is over, so it is negative or 0.
    """
    late = {(group.type, replica.index) for group, replica in facts.unstarted(left)}
    observed = facts.observed
    before = observed.job.status.waiting
    waiting = waiting_reasons(facts.groups, observed.not_created, facts.now, before, gang=None)
    reasons: list[tuple[str, int, Reason]] = [entry for entry in waiting if entry[:2] in late]
    explained = {entry[:2] for entry in reasons}
    unknown = Reason(ReasonKind.OTHER, "its pod has not started")
    reasons += [(kind, index, unknown) for kind, index in sorted(late - explained)]
    allowed_seconds = facts.job.spec.policy.start_deadline_seconds
    cause = f"some of its replicas have not started within the {allowed_seconds} seconds of startDeadlineSeconds"
    return f"{_job_failed_because(facts.job, cause)}: {text_of(waiting_for(reasons, before))}"


def _job_failed_because(job: TFJob, cause: str) -> str:
    return f"Job {job.metadata.name} has failed because {cause}"
